// Candidates: for each byte of a beat, whether a chunk may end after it, in two strengths.
//
// FUNCTION 0 is the source's Rabin (a byte is a candidate where F AND mask is `magic`), 1 is Rabin16
// (where F AND mask is 0, with a loose and a strict mask). MODP is the first with mask 31 and magic
// 0. To add a function: a file with a `view` in and 16 bits a lane out, and a line at `g_engine`.
module tc_candidates #(
    parameter int WIDTH = 8,
    parameter int FUNCTION = 0,
    parameter int FLOWS_LOG2 = 4,
    parameter int POSITION_BITS = 24,
    localparam int TID = FLOWS_LOG2 == 0 ? 1 : FLOWS_LOG2,
    localparam int VIEW = 8 * (31 + WIDTH)
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     set_valid,
    input  logic [          TID-1:0] set_flow,
    input  logic [             15:0] set_loose,
    input  logic [             15:0] set_strict,
    input  logic                     set_magic,
    input  logic                     set_off,        // no candidates at all
    input  logic [         VIEW-1:0] in_view,  // three cycles before the rest
    input  logic                     in_valid,
    input  logic [        WIDTH-1:0] in_whole,
    input  logic                     in_last,
    input  logic                     in_bad,
    input  logic [          TID-1:0] in_flow,
    input  logic [POSITION_BITS-1:0] in_position,
    input  logic [              6:0] in_count,
    // A beat came out; `out_event` says that it has a candidate or ends a packet.
    output logic                     out_valid,
    output logic                     out_event,
    output logic [        WIDTH-1:0] out_loose,
    output logic [        WIDTH-1:0] out_strict,
    output logic                     out_last,
    output logic                     out_bad,
    output logic [          TID-1:0] out_flow,
    output logic [POSITION_BITS-1:0] out_position,
    output logic [              6:0] out_count
);
  // Cycles from what belongs to a beat to its values: windows come three cycles ahead.
  localparam int LATENCY = (FUNCTION == 0 ? 13 : 3 + (WIDTH < 8 ? WIDTH : 8)) - 3;
  localparam int SIDE = WIDTH + 2 + TID + POSITION_BITS + 7;

  logic [16*WIDTH-1:0] values;
  generate
    if (FUNCTION == 0) begin : g_engine
      tc_rabin_source #(.WIDTH(WIDTH)) engine (.clk, .view(in_view), .low(values));
    end else begin : g_engine
      tc_rabin16 #(.WIDTH(WIDTH)) engine (.clk, .view(in_view), .value(values));
    end
  endgenerate

  // What a beat is besides its bytes goes beside the engine; the masks are read just in time.
  logic [LATENCY:0] valid_line;
  logic [SIDE-1:0] side;
  logic [TID-1:0] mask_flow;
  tc_delay #(.WIDTH(SIDE), .CYCLES(LATENCY)) beside (
      .clk,
      .in ({in_whole, in_last, in_bad, in_flow, in_position, in_count}),
      .out(side)
  );
  tc_delay #(.WIDTH(TID), .CYCLES(LATENCY - 1)) ahead (.clk, .in(in_flow), .out(mask_flow));
  always_ff @(posedge clk) begin
    if (rst) valid_line <= '0;
    else valid_line <= {valid_line[LATENCY-1:0], in_valid};
  end

  logic [33:0] masks[1<<FLOWS_LOG2];
  logic [33:0] mask;
  logic [TID-1:0] mask_at, set_at;
  assign mask_at = FLOWS_LOG2 == 0 ? '0 : mask_flow;
  assign set_at  = FLOWS_LOG2 == 0 ? '0 : set_flow;
  always_ff @(posedge clk) begin
    if (set_valid) masks[set_at] <= {set_off, set_magic, set_strict, set_loose};
    mask <= masks[mask_at];
  end

  // The test, then what it means.
  logic [WIDTH-1:0] loose, strict;
  logic tested_valid;
  logic [SIDE-1:0] tested;
  logic off;
  genvar i;
  generate
    for (i = 0; i < WIDTH; i++) begin : g_test
      logic [15:0] v;
      assign v = values[16*i+:16];
      always_ff @(posedge clk) begin
        loose[i]  <= (v & mask[15:0]) == {15'b0, mask[32]};
        strict[i] <= (v & mask[31:16]) == {15'b0, mask[32]};
      end
    end
  endgenerate
  always_ff @(posedge clk) begin
    tested_valid <= valid_line[LATENCY-1] && !rst;
    tested <= side;
    off <= mask[33];
  end

  logic [WIDTH-1:0] whole, found;
  assign whole = tested[SIDE-1-:WIDTH];
  assign found = off ? '0 : (loose & whole);
  // One more stage: the OR over all lanes.
  logic found_valid;
  logic [WIDTH-1:0] found_loose, found_strict;
  logic [SIDE-WIDTH-1:0] found_side;
  always_ff @(posedge clk) begin
    found_valid <= tested_valid && !rst;
    found_loose <= found;
    found_strict <= found & strict;
    found_side <= tested[SIDE-WIDTH-1:0];

    out_valid <= found_valid && !rst;
    out_event <= found_valid && ((|found_loose) || found_side[SIDE-WIDTH-1]) && !rst;
    out_loose <= found_loose;
    out_strict <= found_strict;
    {out_last, out_bad, out_flow, out_position, out_count} <= found_side;
  end
endmodule
