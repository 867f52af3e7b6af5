// Selection: which candidates become cuts.
//
// Works through events (beats that have candidates, or end a packet) at its own pace, behind a
// queue: a few cycles a candidate, so that it never limits the clock of the candidates. For a chunk
// that begins at `start`: a candidate below `min` is ignored (or, with `at_min`, cuts at `min`); below
// `expected` it must be strict; at `max` the chunk ends in any case. With `pass` every candidate is
// told and nothing else. Positions are of a packet; a chunk that began `length` bytes before
// the packet has a negative start.
module tc_select #(
    parameter int WIDTH = 8,
    parameter int FLOWS_LOG2 = 4,
    parameter int POSITION_BITS = 24,
    localparam int TID = FLOWS_LOG2 == 0 ? 1 : FLOWS_LOG2,
    localparam int S = POSITION_BITS + 2
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     set_valid,
    input  logic [          TID-1:0] set_flow,
    input  logic [             18:0] set_min,
    input  logic [             18:0] set_expected,
    input  logic [             18:0] set_max,
    input  logic [             18:0] set_length,
    input  logic                     set_early,
    input  logic                     set_at_min,
    input  logic                     set_pass,
    input  logic                     in_valid,
    output logic                     in_ready,
    input  logic [        WIDTH-1:0] in_loose,
    input  logic [        WIDTH-1:0] in_strict,
    input  logic                     in_last,
    input  logic                     in_bad,
    input  logic [          TID-1:0] in_flow,
    input  logic [POSITION_BITS-1:0] in_position,
    input  logic [              6:0] in_count,
    // A cut (the position behind a chunk's last byte) or, with `last`, the packet's end: then
    // the position is its length, `length` the length of the chunk under way.
    output logic                     out_valid,
    input  logic                     out_ready,
    output logic                     out_last,
    output logic                     out_bad,
    output logic                     out_early,
    output logic [          TID-1:0] out_flow,
    output logic [POSITION_BITS-1:0] out_position,
    output logic [             18:0] out_length
);
  localparam int GROUPS = (WIDTH + 7) / 8;
  localparam int ROOM = 8 * GROUPS;

  typedef enum logic [3:0] {
    IDLE, LOAD, BEGIN, GROUP, PICK, BIT, LENGTH, COMPARE, ACT, AGAIN, TOTAL, DUE, CLOSE, END, STORE
  } step_t;
  step_t step;

  // Per flow: limits, and the chunk under way.
  logic [78:0] limits[1<<FLOWS_LOG2];
  logic [S:0] chunks[1<<FLOWS_LOG2];
  logic [(1<<FLOWS_LOG2)-1:0] fresh;
  logic [TID-1:0] flow, set_at;
  assign set_at = FLOWS_LOG2 == 0 ? '0 : set_flow;

  logic [18:0] min, expected, max, length0;
  logic early0, at_min, pass;
  logic signed [S-1:0] start, start0, len, due, position;
  logic early, strict, last, bad, begins;
  logic over, reached, not_yet, below_min, below_expected;
  logic [ROOM-1:0] loose_bits, strict_bits;
  logic [7:0] group_loose, group_strict;
  logic [POSITION_BITS-1:0] base;
  logic [6:0] count;
  logic [2:0] group_at;
  logic [7:0] left;  // which groups have bits

  function automatic [2:0] lowest(input logic [7:0] bits);
    casez (bits)
      8'b???????1: lowest = 3'd0;
      8'b??????10: lowest = 3'd1;
      8'b?????100: lowest = 3'd2;
      8'b????1000: lowest = 3'd3;
      8'b???10000: lowest = 3'd4;
      8'b??100000: lowest = 3'd5;
      8'b?1000000: lowest = 3'd6;
      default: lowest = 3'd7;
    endcase
  endfunction

  // The first group with candidates, and the first candidate of the group at hand, a cycle after
  // `left` and `group_loose` are known: every way to GROUP and to BIT leaves time for that.
  logic [2:0] pick_group, pick_bit;
  logic pick_strict, no_group, no_bit;
  always_ff @(posedge clk) begin
    pick_group <= lowest(left);
    no_group <= left == '0;
    pick_bit <= lowest(group_loose);
    pick_strict <= group_strict[lowest(group_loose)];
    no_bit <= group_loose == '0;
  end
  assign in_ready = step == IDLE;

  logic [7:0] groups_in;
  genvar g;
  generate
    for (g = 0; g < 8; g++) begin : g_any
      if (g < GROUPS) begin : g_has
        assign groups_in[g] = |(ROOM'(in_loose) >> (8 * g) & ROOM'(8'hFF));
      end else begin : g_none
        assign groups_in[g] = 1'b0;
      end
    end
  endgenerate

  // Where a packet's first chunk began.
  always_ff @(posedge clk) start0 <= -$signed({{(S - 19) {1'b0}}, length0});

  // Where the chunk under way ends without a candidate, counted from its start; a cycle after
  // `early` and `max` are known, which every way to LENGTH and DUE leaves time for.
  logic [18:0] due_length;
  always_ff @(posedge clk) due_length <= early ? min : max;

  // Comparisons are signs of differences. `rest` is `len` less one.
  logic signed [S-1:0] rest, to_min, to_expected, to_due, past_due;
  assign to_min = len - $signed({{(S - 19) {1'b0}}, min});
  assign to_expected = len - $signed({{(S - 19) {1'b0}}, expected});
  assign to_due = len - $signed({{(S - 19) {1'b0}}, due_length});
  assign past_due = rest - $signed({{(S - 19) {1'b0}}, due_length});

  // What the compared candidate, or the packet's end, comes to.
  logic cuts, closes, free, tells;
  assign cuts = !not_yet && !early && !below_min && (strict || !below_expected);
  assign closes = reached && !pass;
  assign free = out_ready || !out_valid;
  assign tells = (step == ACT && (pass || over || cuts)) || step == END;

  always_ff @(posedge clk) begin
    if (set_valid)
      limits[set_at] <= {
        set_pass, set_early, set_length, set_at_min, set_max, set_expected, set_min
      };
    if (step == STORE) chunks[flow] <= {early, start};
    case (step)
      IDLE: begin
        loose_bits <= ROOM'(in_loose);
        strict_bits <= ROOM'(in_strict);
        left <= groups_in;
        last <= in_last;
        bad <= in_bad;
        flow <= FLOWS_LOG2 == 0 ? '0 : in_flow;
        base <= in_position;
        count <= in_count;
      end
      LOAD: begin
        {pass, early0, length0, at_min, max, expected, min} <= limits[flow];
        {early, start} <= chunks[flow];
      end
      BEGIN: begins <= fresh[flow];
      GROUP: begin
        if (begins) {early, start} <= {early0, start0};
        begins <= 1'b0;
        group_at <= pick_group;
        group_loose <= 8'(loose_bits >> {pick_group, 3'b0});
        group_strict <= 8'(strict_bits >> {pick_group, 3'b0});
        left <= left & (left - 1'b1);
      end
      BIT: begin
        position <= $signed({2'b0, base}) + $signed({{(S - 6) {1'b0}}, group_at, pick_bit}) + 1'b1;
        strict <= pick_strict;
        group_loose <= group_loose & (group_loose - 1'b1);
      end
      TOTAL: position <= $signed({2'b0, base}) + $signed({{(S - 7) {1'b0}}, count});
      LENGTH, DUE: begin
        len <= position - start;
        rest <= position + ~start;
        due <= start + $signed({{(S - 19) {1'b0}}, due_length});
      end
      COMPARE, CLOSE: begin
        over <= !past_due[S-1];
        reached <= !to_due[S-1];
        not_yet <= rest[S-1];
        below_min <= to_min[S-1];
        below_expected <= to_expected[S-1];
      end
      ACT:
      if (!pass) begin
        if (over) begin
          if (free) start <= due;
          if (free) early <= 1'b0;
        end else if (!not_yet && !early && below_min) early <= at_min;
        else if (cuts && free) start <= position;
      end
      END:
      if (closes && free) begin
        start <= due;
        early <= 1'b0;
      end
      default: ;
    endcase
  end

  // Bit by bit: an index on the left would be negated in a carry chain.
  genvar f;
  generate
    for (f = 0; f < 1 << FLOWS_LOG2; f++) begin : g_fresh
      always_ff @(posedge clk) begin
        if (rst) fresh[f] <= 1'b1;
        else if (step == STORE && flow == TID'(f)) fresh[f] <= last;
      end
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (tells && free) begin
      out_last <= step == END && !closes;
      out_bad <= bad;
      out_early <= early;
      out_flow <= flow;
      out_position <= POSITION_BITS'((step == END && closes) || (step == ACT && over && !pass) ?
                                     due : position);
      out_length <= pass ? '0 : 19'(len);
    end
    if (rst) begin
      step <= IDLE;
      out_valid <= 1'b0;
    end else begin
      if (tells && free) out_valid <= 1'b1;
      else if (out_ready) out_valid <= 1'b0;
      case (step)
        IDLE: if (in_valid) step <= LOAD;
        LOAD: step <= BEGIN;
        BEGIN: step <= GROUP;
        GROUP: step <= !no_group ? PICK : last ? TOTAL : STORE;
        PICK: step <= BIT;
        BIT: step <= !no_bit ? LENGTH : GROUP;
        LENGTH: step <= COMPARE;
        COMPARE: step <= ACT;
        ACT:
        if (!tells || free) step <= (over && !pass) ? AGAIN : BIT;
        AGAIN: step <= LENGTH;
        TOTAL: step <= DUE;
        DUE: step <= CLOSE;
        CLOSE: step <= END;
        END: if (free) step <= closes ? TOTAL : STORE;
        STORE: step <= IDLE;
        default: step <= IDLE;
      endcase
    end
  end
endmodule
