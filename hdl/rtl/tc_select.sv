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
    parameter int SIZE_BITS = 19,  // of a chunk; no more than of a position
    localparam int TID = FLOWS_LOG2 == 0 ? 1 : FLOWS_LOG2,
    localparam int S = POSITION_BITS + 2
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     set_valid,
    input  logic [          TID-1:0] set_flow,
    input  logic [    SIZE_BITS-1:0] set_min,
    input  logic [    SIZE_BITS-1:0] set_expected,
    input  logic [    SIZE_BITS-1:0] set_max,
    input  logic [    SIZE_BITS-1:0] set_length,
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
    output logic [    SIZE_BITS-1:0] out_length
);
  localparam int GROUPS = (WIDTH + 7) / 8;
  localparam int ROOM = 8 * GROUPS;

  typedef enum logic [3:0] {
    IDLE, LOAD, BEGIN, GROUP, PICK, BIT, LENGTH, COMPARE, ACT, AGAIN, TOTAL, DUE, CLOSE, END, STORE
  } step_t;
  step_t step;

  // Per flow: limits, and the chunk under way.
  logic [4*SIZE_BITS+2:0] limits[1<<FLOWS_LOG2];
  logic [S:0] chunks[1<<FLOWS_LOG2];
  logic [(1<<FLOWS_LOG2)-1:0] fresh;
  logic [TID-1:0] flow, set_at;
  assign set_at = FLOWS_LOG2 == 0 ? '0 : set_flow;

  logic [SIZE_BITS-1:0] min, expected, max, length0;
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
  always_ff @(posedge clk) start0 <= -$signed({{(S - SIZE_BITS) {1'b0}}, length0});

  // Where the chunk under way ends without a candidate, counted from its start; a cycle after
  // `early` and `max` are known, which every way to LENGTH and DUE leaves time for.
  logic [SIZE_BITS-1:0] due_length;
  always_ff @(posedge clk) due_length <= early ? min : max;

  // Comparisons are signs of differences. `rest` is `len` less one.
  logic signed [S-1:0] rest, to_min, to_expected, to_due, past_due;
  assign to_min = len - $signed({{(S - SIZE_BITS) {1'b0}}, min});
  assign to_expected = len - $signed({{(S - SIZE_BITS) {1'b0}}, expected});
  assign to_due = len - $signed({{(S - SIZE_BITS) {1'b0}}, due_length});
  assign past_due = rest - $signed({{(S - SIZE_BITS) {1'b0}}, due_length});

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
        // A beat begins at a multiple of its width: one sum is enough.
        position <= $signed({2'b0, base | POSITION_BITS'({group_at, pick_bit})}) + 1'b1;
        strict <= pick_strict;
        group_loose <= group_loose & (group_loose - 1'b1);
      end
      TOTAL: position <= $signed({2'b0, base}) + $signed({{(S - 7) {1'b0}}, count});
      LENGTH, DUE: begin
        len <= position - start;
        rest <= position + ~start;
        due <= start + $signed({{(S - SIZE_BITS) {1'b0}}, due_length});
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
    // What is not told is not valid.
    if ((step == ACT || step == END) && free) begin
      out_last <= step == END && !closes;
      out_bad <= bad;
      out_early <= early;
      out_flow <= flow;
      out_position <= POSITION_BITS'((step == END && closes) || (step == ACT && over && !pass) ?
                                     due : position);
      out_length <= pass ? '0 : SIZE_BITS'(len);
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

`ifdef FORMAL
  // Proved for one flow. Assumed: its settings do not change, and are such as a host may give; beats
  // come in order, and have candidates among their bytes only.
  logic is_new = 1'b1;
  (* anyconst *) logic [4*SIZE_BITS+2:0] all_set;
  logic signed [S-1:0] min_is, expected_is, max_is, length_is;
  assign min_is = $signed({{(S - SIZE_BITS) {1'b0}}, all_set[0+:SIZE_BITS]});
  assign expected_is = $signed({{(S - SIZE_BITS) {1'b0}}, all_set[SIZE_BITS+:SIZE_BITS]});
  assign max_is = $signed({{(S - SIZE_BITS) {1'b0}}, all_set[2*SIZE_BITS+:SIZE_BITS]});
  assign length_is = $signed({{(S - SIZE_BITS) {1'b0}}, all_set[3*SIZE_BITS+1+:SIZE_BITS]});
  logic early_is, pass_is, at_min_is;
  assign at_min_is = all_set[3*SIZE_BITS];
  assign early_is = all_set[4*SIZE_BITS+1];
  assign pass_is = all_set[4*SIZE_BITS+2];
  logic takes;
  assign takes = step == IDLE && in_valid;
  logic signed [S-1:0] floor, in_base;  // where the packet's next beat may be
  assign in_base = $signed({2'b0, in_position});
  always_comb begin
    assume ({set_pass, set_early, set_length, set_at_min, set_max, set_expected, set_min} == all_set);
    assume (1 <= min_is && min_is <= expected_is && expected_is <= max_is);
    assume (length_is < max_is && (!early_is || length_is < min_is));
    if (is_new) assume (rst && set_valid);
    if (takes) begin
      assume (in_base >= floor && in_position % WIDTH == 0);
      assume (in_base + $signed(S'(WIDTH)) < $signed(S'(1 << POSITION_BITS)));
      assume (in_count <= WIDTH && (in_last || in_loose != 0));
      assume (in_loose >> in_count == 0 && (in_strict & ~in_loose) == 0);
    end
  end

  // The chunk under way, by what was told; one lane of each beat, drawn by the solver; the lane that
  // was looked at last.
  logic signed [S-1:0] begun;
  (* anyconst *) logic [5:0] lane;
  logic wanted, seen, told, looked;
  logic [5:0] looked_at;
  logic leaves, is_cut, is_look;
  logic signed [S-1:0] tell_at, lane_at;
  assign leaves = tells && free;
  assign is_cut = leaves && !(step == END && !closes);
  assign tell_at = (step == END && closes) || (step == ACT && over && !pass) ? due : position;
  assign lane_at = $signed({2'b0, base}) + $signed(S'(lane)) + 1'b1;
  assign is_look = step == BIT && !no_bit;
  always_comb assume (lane < WIDTH);
  always_ff @(posedge clk) begin
    is_new <= 1'b0;
    if (rst) begin
      begun <= -length_is;
      floor <= '0;
    end else begin
      if (takes) floor <= in_base + $signed(S'(WIDTH));
      if (step == STORE && last) {begun, floor} <= {-length_is, S'(0)};
      else if (is_cut && !pass) begun <= tell_at;
    end
    if (takes) wanted <= in_loose[lane[$clog2(WIDTH)-1:0]];
    if (takes || rst) {seen, told, looked} <= '0;
    else if (is_look) begin
      {looked, looked_at} <= {1'b1, group_at, pick_bit};
      if ({group_at, pick_bit} == lane) seen <= 1'b1;
    end
    if (is_cut && pass && tell_at == lane_at) told <= 1'b1;
  end

  logic signed [S-1:0] size, end_at;
  assign size = tell_at - begun;
  assign end_at = $signed({2'b0, base}) + $signed(S'(count));
  logic was_waiting;
  logic [SIZE_BITS+POSITION_BITS+3:0] record, record_was;
  assign record = {out_last, out_bad, out_early, out_position, out_length};
  always_ff @(posedge clk) begin
    was_waiting <= !rst && out_valid && !out_ready;
    record_was <= record;
    if (!is_new && !rst) begin
      // A record waits until it is taken, as it was.
      if (was_waiting) assert (out_valid && record == record_was);
      // Cuts ascend, behind what was seen; chunks have at least the least size and at most the greatest.
      if (is_cut && !pass) assert (size >= min_is && size <= max_is && tell_at > 0);
      if (is_cut) assert (tell_at <= $signed({2'b0, base}) + $signed(S'(WIDTH)));
      if (is_cut && last) assert (tell_at <= end_at);
      // A candidate cuts if it is far enough from the last cut, and nothing else is due before it.
      if (step == ACT && !pass) begin
        assert (over == (position - begun > (early ? min_is : max_is)));
        if (!over) assert (cuts == (!early && position - begun >= (strict ? min_is : expected_is)));
      end
      // Every candidate is looked at once, in order; told if all are to be; none that was not there.
      if (is_look) begin
        assert (!looked || {group_at, pick_bit} > looked_at);
        if ({group_at, pick_bit} == lane) assert (wanted && !seen);
      end
      if (is_cut && pass) assert (position == $signed({2'b0, base}) + $signed(S'(looked_at)) + 1'b1);
      if (step == STORE || step == TOTAL || late_sums) begin
        assert (seen == wanted);
        if (pass) assert (told == wanted);
      end
      // The packet's end: its length, and the length of the chunk under way, below the greatest.
      if (leaves && step == END && !closes) begin
        assert (last && position == end_at);
        if (!pass) assert (len == position - begun && len >= 0 && len < max_is);
      end
      if (step == STORE && last) assert (tells_end);
    end
  end
  logic tells_end;
  always_ff @(posedge clk) begin
    if (takes || rst) tells_end <= 1'b0;
    if (leaves && step == END && !closes) begin
      tells_end <= 1'b1;
      if (!rst) assert (!tells_end);
    end
  end

  // What induction needs besides.
  logic in_beat, in_group, sums, late_sums;
  logic [2:0] lane_group, lane_bit;
  logic signed [S-1:0] start_now, base_is;
  logic early_now;
  logic [ROOM-1:0] group_of;
  assign group_of = loose_bits >> {group_at, 3'b0};
  assign {lane_group, lane_bit} = lane;
  assign base_is = $signed({2'b0, base});
  assign in_beat = step != IDLE;
  assign in_group = step == PICK || step == BIT || sums || step == AGAIN;
  assign sums = step == LENGTH || step == COMPARE || step == ACT;
  assign late_sums = step == DUE || step == CLOSE || step == END;
  always_comb begin
    {early_now, start_now} = {early, start};
    if (step == IDLE || step == LOAD) {early_now, start_now} = chunks[0];
    if (step == GROUP ? begins : step <= BEGIN && fresh[0]) {early_now, start_now} = {early_is, -length_is};
  end
  always_ff @(posedge clk) begin
    if (!is_new) assert (limits[0] == all_set);
    if (!is_new && !rst) begin
      assert (step <= STORE && (step == IDLE || flow == '0));
      if (step > LOAD) assert ({pass, early0, length0, at_min, max, expected, min} == all_set);
      if (step > BEGIN) assert (start0 == -length_is);
      if (step > GROUP) assert (!begins);
      assert (start_now == begun && begun >= -length_is);
      if (early_now) assert (begun + min_is > 0);
      if (step == IDLE) assert (begun <= floor && floor <= $signed(S'(1 << POSITION_BITS)) && (!fresh[0] || floor == 0));
      if (in_beat) begin
        assert (loose_bits[lane] == wanted && base % WIDTH == 0 && count <= WIDTH);
        assert (loose_bits >> count == 0 && floor == base_is + $signed(S'(WIDTH)));
        assert (floor < $signed(S'(1 << POSITION_BITS)) && begun <= (last ? end_at : floor));
        if (step <= BIT && !looked) assert (begun <= base_is);
      end
      if (step == LOAD || step == BEGIN) assert (!looked && !seen && !told && left == groups_left);
      if (step == GROUP) assert (pick_group == lowest(left) && no_group == (left == '0));
      if (step == BIT) assert (pick_bit == lowest(group_loose) && no_bit == (group_loose == '0));
      if (step == BIT) assert (pick_strict == group_strict[pick_bit]);
      if (in_group) assert ((group_loose & ~group_of[7:0]) == 0);
      if (in_beat) begin
        assert ((left & ~groups_left) == 0);
        if (step <= GROUP || in_group)
          assert ((wanted && !seen) == (left[lane_group] || (in_group && group_at == lane_group && group_loose[lane_bit])) ||
                  (!wanted && left[lane_group]));
        if (looked) assert ((left & ((8'd2 << looked_at[5:3]) - 8'd1)) == 0);
        if (in_group) assert ((left & ((8'd2 << group_at) - 8'd1)) == 0);
        if (in_group && looked && looked_at[5:3] == group_at)
          assert ((group_loose & ((8'd2 << looked_at[2:0]) - 8'd1)) == 0);
        if (in_group && looked) assert (looked_at[5:3] <= group_at);
      end
      if (seen) assert (wanted && looked && lane <= looked_at);
      if (looked && looked_at == lane) assert (seen);
      if (sums || step == AGAIN) begin
        assert (looked && position == base_is + $signed(S'(looked_at)) + 1'b1 && looked_at < count);
        if (!pass) assert (begun < position);
      end
      if (in_beat && looked && !pass && step <= BIT) assert (begun <= base_is + $signed(S'(looked_at)) + 2'sd1);
      if (pass_is) assert (begun == -length_is);
      if (pass_is && in_beat) assert (told == (seen && !((sums || step == AGAIN) && looked_at == lane)));
      if (step == TOTAL || late_sums) assert (last && left == 0);
      if (step == STORE) assert (left == 0 && tells_end == last);
      else if (in_beat) assert (!tells_end);
      if (late_sums) assert (position == end_at);
      if (sums || late_sums) assert (due_length == (early ? min : max));
      if (step == COMPARE || step == ACT || step == CLOSE || step == END) begin
        assert (len == position - start && rest == len - 1'b1);
        assert (due == start + $signed({{(S - SIZE_BITS) {1'b0}}, due_length}));
      end
      if (step == ACT || step == END) begin
        assert (over == !past_due[S-1] && reached == !to_due[S-1] && not_yet == rest[S-1]);
        assert (below_min == to_min[S-1] && below_expected == to_expected[S-1]);
      end
    end
  end
  logic [7:0] groups_left;  // groups of the beat with bits
  generate
    for (g = 0; g < 8; g++) begin : g_left
      if (g < GROUPS) assign groups_left[g] = |(loose_bits >> (8 * g) & ROOM'(8'hFF));
      else assign groups_left[g] = 1'b0;
    end
  endgenerate
`endif
endmodule
