// A word, CYCLES cycles later.
module tc_delay #(
    parameter int WIDTH  = 1,
    parameter int CYCLES = 1
) (
    /* verilator lint_off UNUSEDSIGNAL */
    input  logic             clk,  // without use where CYCLES is 0
    /* verilator lint_on UNUSEDSIGNAL */
    input  logic [WIDTH-1:0] in,
    output logic [WIDTH-1:0] out
);
  generate
    if (CYCLES == 0) begin : g_none
      assign out = in;
    end else begin : g_line
      logic [WIDTH*CYCLES-1:0] line;
      if (CYCLES == 1) begin : g_one
        always_ff @(posedge clk) line <= in;
      end else begin : g_more
        always_ff @(posedge clk) line <= {line[WIDTH*(CYCLES-1)-1:0], in};
      end
      assign out = line[WIDTH*CYCLES-1-:WIDTH];
    end
  endgenerate
endmodule
