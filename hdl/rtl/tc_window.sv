// The window: each beat with the 31 bytes of its flow before it.
//
// The last 31 bytes of every flow are kept, 31 bytes of context a flow, so flows may alternate from
// beat to beat. Only the last beat of a packet may hold fewer than WIDTH bytes: then the context is a
// fixed cut of what is known, and no shifter is needed. A packet that goes on where another ended
// says so with lead beats (`lead`), whose bytes enter the window and nothing else.
//
// After a reset the counts of all flows are cleared, one a cycle; until `ready`, no beat may come.
//
// `whole` marks bytes whose whole window is known: `known` (0 to 31) bytes were known before the
// packet's first byte.
module tc_window #(
    parameter int WIDTH = 8,
    parameter int FLOWS_LOG2 = 4,
    parameter int POSITION_BITS = 24,
    localparam int TID = FLOWS_LOG2 == 0 ? 1 : FLOWS_LOG2,
    localparam int VIEW = 8 * (31 + WIDTH)
) (
    input  logic                     clk,
    input  logic                     rst,
    output logic                     ready,
    // What is known before a packet begins; only while the flow is idle.
    input  logic                     set_valid,
    input  logic [          TID-1:0] set_flow,
    input  logic [              4:0] set_known,
    // Beats.
    input  logic                     in_valid,
    input  logic [      8*WIDTH-1:0] in_data,
    input  logic [        WIDTH-1:0] in_keep,
    input  logic                     in_last,
    input  logic                     in_lead,
    input  logic [          TID-1:0] in_flow,
    // Their windows two cycles later, the rest five: engines take longer than that.
    output logic [         VIEW-1:0] out_view,
    output logic                     out_valid,
    output logic [        WIDTH-1:0] out_whole,
    output logic                     out_last,
    output logic                     out_bad,
    output logic [          TID-1:0] out_flow,
    output logic [POSITION_BITS-1:0] out_position,
    output logic [              6:0] out_count
);
  localparam int FLOWS = 1 << FLOWS_LOG2;
  localparam int STEP = $clog2(WIDTH);
  localparam int AT = POSITION_BITS - STEP;

  // The first stage holds the beat still, so that memories are read from registers. A lead beat that
  // is a packet's last, of which there are none in a stream, clears a count.
  logic beat_valid, beat_last, beat_lead;
  logic [8*WIDTH-1:0] beat_data;
  logic [WIDTH-1:0] beat_keep;
  logic [TID-1:0] beat_flow;
  logic [TID-1:0] clearing;
  always_ff @(posedge clk) begin
    if (rst) begin
      ready <= 1'b0;
      clearing <= '0;
    end else begin
      if (clearing == TID'(FLOWS - 1)) ready <= 1'b1;
      else clearing <= clearing + 1'b1;
    end
    beat_valid <= (in_valid || !ready) && !rst;
    beat_last <= in_last || !ready;
    beat_lead <= in_lead || !ready;
    beat_data <= in_data;
    beat_keep <= in_keep;
    beat_flow <= ready ? in_flow : clearing;
  end

  // Context: the last 31 bytes; whether the packet is malformed, and how many beats of it went by,
  // which is none behind its last.
  logic [247:0] tails[FLOWS];
  logic [AT:0] beats[FLOWS];
  logic [4:0] knowns[FLOWS];
  logic [TID-1:0] at, set_at;
  assign at = FLOWS_LOG2 == 0 ? '0 : beat_flow;
  assign set_at = FLOWS_LOG2 == 0 ? '0 : set_flow;

  logic [VIEW-1:0] view;
  assign view = {beat_data, tails[at]};
  always_ff @(posedge clk) begin
    if (beat_valid) tails[at] <= view[VIEW-1-:248];
    if (set_valid) knowns[set_at] <= set_known;
    out_view <= view;
  end

  // Bytes are kept from the first on, and only a packet's end may lack some.
  logic hole;
  generate
    if (WIDTH == 1) begin : g_no_hole
      assign hole = 1'b0;
    end else begin : g_hole
      assign hole = |(beat_keep[WIDTH-1:1] & ~beat_keep[WIDTH-2:0]);
    end
  endgenerate

  // The count is read in one cycle, known in the next, made in the one after it, and then written. So
  // the beat right behind takes it from where it is made, and the next two from what is written.
  logic read_valid, read_lead, read_last, read_hole, read_full;
  logic read_again, read_cleared, read_made;
  logic [WIDTH-1:0] read_keep;
  logic [TID-1:0] read_flow;
  logic [4:0] read_known;
  logic [AT:0] read_beats;
  logic now_valid, now_counts, now_last, now_bad;
  logic [WIDTH-1:0] now_keep;
  logic [TID-1:0] now_flow;
  logic [4:0] now_known;
  logic [AT:0] now, sum, next, made;
  logic made_valid;
  logic [TID-1:0] made_flow;
  always_ff @(posedge clk) begin
    read_valid <= beat_valid && !rst;
    read_lead <= beat_lead;
    read_last <= beat_last;
    read_hole <= hole;
    read_full <= &beat_keep;
    read_keep <= beat_keep;
    read_flow <= at;
    read_known <= knowns[at];
    read_beats <= made_valid && made_flow == at ? made : beats[at];
    read_again <= read_valid && read_flow == at && !read_last;
    read_cleared <= read_valid && read_flow == at && read_last;
    read_made <= now_valid && now_flow == at;
  end
  assign sum = {now[AT] || now_bad, now[AT-1:0] + AT'(now_counts)};
  assign next = now_last ? '0 : sum;
  always_ff @(posedge clk) begin
    now <= read_again ? sum : read_cleared ? '0 : read_made ? made : read_beats;
    now_valid <= read_valid && !rst;
    now_counts <= !read_lead;
    now_last <= read_last;
    now_bad <= read_hole || (!read_last && !read_full);
    now_keep <= read_keep;
    now_flow <= read_flow;
    now_known <= read_known;
    made <= next;
    made_valid <= now_valid;
    made_flow <= now_flow;
    if (made_valid) beats[made_flow] <= made;
  end
  logic make_valid, make_last, make_bad;
  logic [WIDTH-1:0] make_keep;
  logic [TID-1:0] make_flow;
  logic [5:0] lacking;
  logic [AT-1:0] beat_at;
  always_ff @(posedge clk) begin
    make_valid <= now_valid && now_counts && !rst;
    make_last <= now_last;
    make_bad <= sum[AT];
    make_keep <= now_keep;
    make_flow <= now_flow;
    lacking <= 6'd31 - {1'b0, now_known};
    beat_at <= now[AT-1:0];
  end

  // Lanes from `31 - known - position` on have a whole window.
  logic near;
  logic [5:0] offset;
  generate
    if (WIDTH >= 32) begin : g_wide
      always_ff @(posedge clk) near <= now[AT-1:0] == '0;
      assign offset = '0;
    end else begin : g_narrow
      always_ff @(posedge clk) near <= now[AT-1:0] < AT'(32 / WIDTH);
      assign offset = 6'(beat_at) << STEP;
    end
  endgenerate

  logic [WIDTH-1:0] whole;
  genvar lane;
  generate
    for (lane = 0; lane < WIDTH; lane++) begin : g_whole
      if (lane >= 31) begin : g_far
        assign whole[lane] = 1'b1;
      end else begin : g_near
        logic [5:0] place;
        assign place = offset + 6'(lane);
        assign whole[lane] = !near || place >= lacking;
      end
    end
  endgenerate

  // How many bytes a beat has, in binary: its highest kept byte.
  logic [6:0] count;
  generate
    if (WIDTH == 1) begin : g_one
      assign count = {6'b0, make_keep[0]};
    end else begin : g_more
      always_comb begin
        count = '0;
        for (int i = 0; i < WIDTH; i++) if (make_keep[i]) count = 7'(i + 1);
      end
    end
  endgenerate

  always_ff @(posedge clk) begin
    out_valid <= make_valid && !rst;
    out_whole <= whole & make_keep;
    out_last <= make_last;
    out_bad <= make_bad;
    out_flow <= make_flow;
    out_position <= POSITION_BITS'(beat_at) << STEP;
    out_count <= count;
  end
endmodule
