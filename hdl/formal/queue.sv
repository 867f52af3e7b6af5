// A stand-in for the queue in the proof of `tc_dma`: words come when the solver likes, and as it
// likes. The proof assumes that no more come than went in; the queue's own proof says the rest.
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
  (* anyseq *) logic any_valid;
  (* anyseq *) logic [WIDTH-1:0] any_data;
  assign pop_valid = any_valid;
  assign pop_data  = any_data;
endmodule
