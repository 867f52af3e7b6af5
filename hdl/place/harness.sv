// A chunker between shift registers, so that any width fits any package's pins. The registers stand
// on both sides of the core, so the clock that is reported is the core's.
module harness #(
    parameter int WIDTH = 8,
    parameter int FUNCTION = 0,
    parameter int FLOWS_LOG2 = 4,
    parameter int CORE = 0  // 0: candidates (window and engine), 1: chunker, 2: accelerator
) (
    input  logic clk,
    input  logic in,
    output logic out
);
  localparam int TID = FLOWS_LOG2 == 0 ? 1 : FLOWS_LOG2;
  localparam int IN = 8 * WIDTH + WIDTH + 4 + TID;
  localparam int SET = 1 + TID + 5 + 34 + 4 * 19 + 3;
  logic [IN-1:0] beat;
  logic [SET-1:0] set;
  always_ff @(posedge clk) beat <= {beat[IN-2:0], in};
  always_ff @(posedge clk) set <= {set[SET-2:0], beat[IN-1]};

  logic rst;
  always_ff @(posedge clk) rst <= set[SET-1] & beat[0];

  generate
    if (CORE == 0) begin : g_candidates
      localparam int VIEW = 8 * (31 + WIDTH);
      logic w_valid, w_last, w_bad, w_ready;
      logic [VIEW-1:0] w_view;
      logic [WIDTH-1:0] w_whole;
      logic [TID-1:0] w_flow;
      logic [23:0] w_position;
      logic [6:0] w_count;
      tc_window #(.WIDTH(WIDTH), .FLOWS_LOG2(FLOWS_LOG2)) window (
          .clk, .rst, .ready(w_ready), .set_valid(set[0]), .set_flow(set[1+:TID]), .set_known(set[1+TID+:5]),
          .in_valid(beat[0] && w_ready), .in_data(beat[4+TID+WIDTH+:8*WIDTH]), .in_keep(beat[4+TID+:WIDTH]),
          .in_last(beat[1]), .in_lead(beat[2]), .in_flow(beat[4+:TID]),
          .out_valid(w_valid), .out_view(w_view), .out_whole(w_whole), .out_last(w_last),
          .out_bad(w_bad), .out_flow(w_flow), .out_position(w_position), .out_count(w_count)
      );
      localparam int OUT = 2 * WIDTH + 4 + TID + 24 + 7;
      logic [OUT-1:0] result, kept;
      tc_candidates #(.WIDTH(WIDTH), .FUNCTION(FUNCTION), .FLOWS_LOG2(FLOWS_LOG2)) candidates (
          .clk, .rst, .set_valid(set[0]), .set_flow(set[1+:TID]),
          .set_loose(set[6+TID+:16]), .set_strict(set[22+TID+:16]), .set_magic(set[38+TID]),
          .set_off(set[39+TID]),
          .in_valid(w_valid), .in_view(w_view), .in_whole(w_whole), .in_last(w_last),
          .in_bad(w_bad), .in_flow(w_flow), .in_position(w_position), .in_count(w_count),
          .out_valid(result[0]), .out_event(result[1]), .out_last(result[2]), .out_bad(result[3]),
          .out_loose(result[4+:WIDTH]), .out_strict(result[4+WIDTH+:WIDTH]),
          .out_flow(result[4+2*WIDTH+:TID]), .out_position(result[4+2*WIDTH+TID+:24]),
          .out_count(result[28+2*WIDTH+TID+:7])
      );
      always_ff @(posedge clk) kept <= result[1] ? result : {kept[OUT-2:0], kept[OUT-1]};
      assign out = kept[OUT-1];
    end else if (CORE == 1) begin : g_chunker
      localparam int OUT = 4 + TID + 24 + 19;
      logic [OUT-1:0] result, kept;
      logic s_ready;
      tc_chunker #(.WIDTH(WIDTH), .FUNCTION(FUNCTION), .FLOWS_LOG2(FLOWS_LOG2)) core (
          .clk, .rst, .set_valid(set[0]), .set_flow(set[1+:TID]), .set_known(set[1+TID+:5]),
          .set_loose(set[6+TID+:16]), .set_strict(set[22+TID+:16]), .set_magic(set[38+TID]),
          .set_off(set[39+TID]), .set_min(set[40+TID+:19]), .set_expected(set[59+TID+:19]),
          .set_max(set[78+TID+:19]), .set_length(set[97+TID+:19]), .set_early(set[116+TID]),
          .set_at_min(set[117+TID]), .set_pass(set[118+TID]),
          .s_valid(beat[0]), .s_ready, .s_data(beat[4+TID+WIDTH+:8*WIDTH]),
          .s_keep(beat[4+TID+:WIDTH]), .s_last(beat[1]), .s_lead(beat[2]), .s_id(beat[4+:TID]),
          .m_valid(result[0]), .m_ready(beat[3]), .m_last(result[1]), .m_bad(result[2]),
          .m_early(result[3]), .m_id(result[4+:TID]), .m_position(result[4+TID+:24]),
          .m_length(result[28+TID+:19])
      );
      always_ff @(posedge clk) kept <= result[0] ? result : {kept[OUT-2:0], kept[OUT-1] ^ s_ready};
      assign out = kept[OUT-1];
    end else if (CORE == 2) begin : g_accelerator
      localparam int OUT = 32 + 3 * 64 + 2;
      logic [OUT-1:0] result, kept;
      tc_accelerator #(.WIDTH(WIDTH), .FUNCTION(FUNCTION)) core (
          .clk, .rst, .reg_write(set[0]), .reg_address(set[1+:6]), .reg_in(set[7+:32]),
          .reg_out(result[2+:32]), .rd_valid(result[0]), .rd_ready(beat[0]),
          .rd_address(result[34+:64]), .rd_data_valid(beat[1]),
          .rd_data(beat[4+TID+WIDTH+:8*WIDTH]), .wr_valid(result[1]), .wr_ready(beat[2]),
          .wr_address(result[98+:64]), .wr_data(result[162+:64])
      );
      always_ff @(posedge clk) kept <= beat[3] ? result : {kept[OUT-2:0], kept[OUT-1]};
      assign out = kept[OUT-1];
    end else begin : g_unknown
      $error("the harness has no such core");
    end
  endgenerate
endmodule
