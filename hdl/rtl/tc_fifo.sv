// A queue of DEPTH words (a power of two), with a register at its way out.
//
// Whoever pushes must know that there is room: fewer than DEPTH words inside, the register included.
// The chunker reserves it with credits, so nothing here depends on a long chain of `ready`.
// `run.py formal` proves the properties below.
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

`ifdef FORMAL
  // Assumed: a reset at first, and a push only while there is room. Proved by induction: a word that
  // was pushed comes out as it was, once, behind all that were pushed before it and before all later
  // ones; nothing comes out that was not pushed; a word waits until it is taken.
  logic is_new = 1'b1;
  logic [DEPTH_LOG2+1:0] held;  // words inside
  logic popped;
  assign popped = pop_valid && pop_ready;
  always_ff @(posedge clk) begin
    is_new <= 1'b0;
    held <= rst ? '0 : held + push - popped;
  end
  always_comb begin
    if (is_new) assume (rst);
    if (!rst && !is_new && push) assume (held < (1 << DEPTH_LOG2));
  end

  // One word, drawn by the solver, is followed through the queue.
  logic mark, followed, is_out;
  (* anyseq *) logic draw;
  logic [WIDTH-1:0] word;
  logic [DEPTH_LOG2+1:0] ahead;  // words that come out before it
  assign mark = push && draw && !followed;
  always_ff @(posedge clk) begin
    if (rst) followed <= 1'b0;
    else if (mark) begin
      followed <= 1'b1;
      is_out <= 1'b0;
      word <= push_data;
      ahead <= held - popped;
    end else if (followed && !is_out && popped) begin
      if (ahead == 0) is_out <= 1'b1;
      else ahead <= ahead - 1'b1;
    end
  end

  logic [DEPTH_LOG2:0] inside, place;
  assign inside = tail - head;  // words in the memory
  assign place  = head + (DEPTH_LOG2 + 1)'(ahead - pop_valid);
  always_ff @(posedge clk)
    if (!is_new && !rst) begin
      assert (inside <= (1 << DEPTH_LOG2));
      assert (held == inside + pop_valid);
      if (followed && !is_out) begin
        assert (ahead < held);
        if (pop_valid && ahead == 0) assert (pop_data == word);
        else assert (words[place[DEPTH_LOG2-1:0]] == word);
      end
    end
  logic was_waiting;
  logic [WIDTH-1:0] last_data;
  always_ff @(posedge clk) begin
    was_waiting <= !rst && pop_valid && !pop_ready;
    last_data <= pop_data;
    if (!is_new && !rst && was_waiting) assert (pop_valid && pop_data == last_data);
  end
`endif
endmodule
