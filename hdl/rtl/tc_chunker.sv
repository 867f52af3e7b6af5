// A chunker: AXI-Stream in, cuts out. Window, candidates, a queue of events, selection.
//
// Flow control is by credits. The pipeline never stalls: a beat is let in when the queue behind it
// has room for the event it may become. `s_ready` is a register; output may wait forever.
//
// A flow's settings (`set_*`) go in while it is idle: before its first packet, or after the record
// with `m_last` of its latest one.
module tc_chunker #(
    parameter int WIDTH = 8,
    parameter int FUNCTION = 0,
    parameter int FLOWS_LOG2 = 4,
    parameter int POSITION_BITS = 24,
    localparam int TID = FLOWS_LOG2 == 0 ? 1 : FLOWS_LOG2
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     set_valid,
    input  logic [          TID-1:0] set_flow,
    input  logic [              4:0] set_known,
    input  logic [             15:0] set_loose,
    input  logic [             15:0] set_strict,
    input  logic                     set_magic,
    input  logic                     set_off,
    input  logic [             18:0] set_min,
    input  logic [             18:0] set_expected,
    input  logic [             18:0] set_max,
    input  logic [             18:0] set_length,
    input  logic                     set_early,
    input  logic                     set_at_min,
    input  logic                     set_pass,
    input  logic                     s_valid,
    output logic                     s_ready,
    input  logic [      8*WIDTH-1:0] s_data,
    input  logic [        WIDTH-1:0] s_keep,
    input  logic                     s_last,
    input  logic                     s_lead,
    input  logic [          TID-1:0] s_id,
    output logic                     m_valid,
    input  logic                     m_ready,
    output logic                     m_last,
    output logic                     m_bad,
    output logic                     m_early,
    output logic [          TID-1:0] m_id,
    output logic [POSITION_BITS-1:0] m_position,
    output logic [             18:0] m_length
);
  localparam int VIEW = 8 * (31 + WIDTH);
  localparam int QUEUE_LOG2 = 5;
  localparam int EVENT = 2 * WIDTH + 2 + TID + POSITION_BITS + 7;

  logic accept;
  assign accept = s_valid && s_ready;

  logic w_valid, w_last, w_bad, w_ready;
  logic [VIEW-1:0] w_view;
  logic [WIDTH-1:0] w_whole;
  logic [TID-1:0] w_flow;
  logic [POSITION_BITS-1:0] w_position;
  logic [6:0] w_count;
  tc_window #(.WIDTH(WIDTH), .FLOWS_LOG2(FLOWS_LOG2), .POSITION_BITS(POSITION_BITS)) window (
      .clk, .rst, .ready(w_ready), .set_valid, .set_flow, .set_known,
      .in_valid(accept), .in_data(s_data), .in_keep(s_keep), .in_last(s_last), .in_lead(s_lead),
      .in_flow(s_id),
      .out_valid(w_valid), .out_view(w_view), .out_whole(w_whole), .out_last(w_last),
      .out_bad(w_bad), .out_flow(w_flow), .out_position(w_position), .out_count(w_count)
  );

  logic c_valid, c_event, c_last, c_bad;
  logic [WIDTH-1:0] c_loose, c_strict;
  logic [TID-1:0] c_flow;
  logic [POSITION_BITS-1:0] c_position;
  logic [6:0] c_count;
  tc_candidates #(
      .WIDTH(WIDTH), .FUNCTION(FUNCTION), .FLOWS_LOG2(FLOWS_LOG2), .POSITION_BITS(POSITION_BITS)
  ) candidates (
      .clk, .rst, .set_valid, .set_flow, .set_loose, .set_strict, .set_magic, .set_off,
      .in_valid(w_valid), .in_view(w_view), .in_whole(w_whole), .in_last(w_last), .in_bad(w_bad),
      .in_flow(w_flow), .in_position(w_position), .in_count(w_count),
      .out_valid(c_valid), .out_event(c_event), .out_loose(c_loose), .out_strict(c_strict),
      .out_last(c_last), .out_bad(c_bad), .out_flow(c_flow), .out_position(c_position),
      .out_count(c_count)
  );

  logic e_valid, e_ready, e_last, e_bad;
  logic [WIDTH-1:0] e_loose, e_strict;
  logic [TID-1:0] e_flow;
  logic [POSITION_BITS-1:0] e_position;
  logic [6:0] e_count;
  tc_fifo #(.WIDTH(EVENT), .DEPTH_LOG2(QUEUE_LOG2)) queue (
      .clk, .rst, .push(c_event),
      .push_data({c_loose, c_strict, c_last, c_bad, c_flow, c_position, c_count}),
      .pop_valid(e_valid), .pop_ready(e_ready),
      .pop_data({e_loose, e_strict, e_last, e_bad, e_flow, e_position, e_count})
  );

  // Credits: one for each place in the queue. A beat takes one, and gives it back when it came to
  // nothing or when its event leaves. Lead beats come to nothing and take none.
  logic [QUEUE_LOG2:0] credits;
  logic took, gave_beat, gave_event;
  always_ff @(posedge clk) begin
    if (rst) begin
      credits <= 1 << QUEUE_LOG2;
      s_ready <= 1'b0;
      took <= 1'b0;
      gave_beat <= 1'b0;
      gave_event <= 1'b0;
    end else begin
      took <= accept && !s_lead;
      gave_beat <= c_valid && !c_event;
      gave_event <= e_valid && e_ready;
      credits <= credits - (QUEUE_LOG2 + 1)'(took) + (QUEUE_LOG2 + 1)'(gave_beat) +
          (QUEUE_LOG2 + 1)'(gave_event);
      // Beats that `credits` does not count yet: this cycle's and the one's before.
      s_ready <= w_ready && credits > 3;
    end
  end

  tc_select #(.WIDTH(WIDTH), .FLOWS_LOG2(FLOWS_LOG2), .POSITION_BITS(POSITION_BITS)) select (
      .clk, .rst, .set_valid, .set_flow, .set_min, .set_expected, .set_max, .set_length,
      .set_early, .set_at_min, .set_pass,
      .in_valid(e_valid), .in_ready(e_ready), .in_loose(e_loose), .in_strict(e_strict),
      .in_last(e_last), .in_bad(e_bad), .in_flow(e_flow), .in_position(e_position),
      .in_count(e_count),
      .out_valid(m_valid), .out_ready(m_ready), .out_last(m_last), .out_bad(m_bad),
      .out_early(m_early), .out_flow(m_id), .out_position(m_position), .out_length(m_length)
  );
endmodule
