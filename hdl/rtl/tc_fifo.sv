// A queue of DEPTH words (a power of two), with a register at its way out.
//
// `count` is what it holds, the register included. Whoever pushes must know that there is room: the
// chunker reserves it with credits, so nothing here depends on a long chain of `ready`.
module tc_fifo #(
    parameter int WIDTH = 8,
    parameter int DEPTH_LOG2 = 5
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             push,
    input  logic [WIDTH-1:0] push_data,
    output logic             pop_valid,
    input  logic             pop_ready,
    output logic [WIDTH-1:0] pop_data
);
  logic [WIDTH-1:0] words[1<<DEPTH_LOG2];
  logic [DEPTH_LOG2:0] head, tail;
  logic empty, take;

  assign empty = head == tail;
  assign take  = !empty && (!pop_valid || pop_ready);

  always_ff @(posedge clk) begin
    if (push) words[tail[DEPTH_LOG2-1:0]] <= push_data;
    if (take) pop_data <= words[head[DEPTH_LOG2-1:0]];
    if (rst) begin
      head <= '0;
      tail <= '0;
      pop_valid <= 1'b0;
    end else begin
      if (push) tail <= tail + 1'b1;
      if (take) head <= head + 1'b1;
      if (take) pop_valid <= 1'b1;
      else if (pop_ready) pop_valid <= 1'b0;
    end
  end
endmodule
