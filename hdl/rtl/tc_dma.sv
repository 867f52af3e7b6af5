// Moves jobs: descriptors and buffers in, positions and completions out.
//
// A descriptor of 128 bytes names a buffer, its flow's context and what to do (docs/formats/
// accelerator.md draws it). One job is worked on at a time; its buffer streams through the chunker as
// fast as memory gives it, while positions are written as they come, two in a word. The last word of
// a completion has its number, so whoever reads that sees the rest.
//
// Memory is a port of WIDTH bytes: reads are answered in order and never wait, since no more are
// asked for than the queue here can hold; writes of eight bytes wait for `wr_ready` in a register.
//
// `rst` ends everything that was begun; `rst_all` is for power-on, when memory forgets as well. Memory
// answers what it was asked before a `rst`: those words are counted, and dropped as they come.
module tc_dma #(
    parameter int WIDTH = 8,  // 8, 32 or 64
    parameter int POSITION_BITS = 24
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     rst_all,
    // From the registers.
    input  logic                     enable,
    input  logic [             63:0] ring,
    input  logic [             63:0] completions,
    input  logic [              4:0] ring_log2,
    input  logic [             31:0] offered,
    output logic [             31:0] taken,
    output logic [             31:0] done,
    output logic [             31:0] cycles_busy,
    // Memory.
    output logic                     rd_valid,
    input  logic                     rd_ready,
    output logic [             63:0] rd_address,
    input  logic                     rd_data_valid,
    input  logic [      8*WIDTH-1:0] rd_data,
    output logic                     wr_valid,
    input  logic                     wr_ready,
    output logic [             63:0] wr_address,
    output logic [             63:0] wr_data,
    // The chunker.
    output logic                     set_valid,
    output logic [           1023:0] set_descriptor,
    output logic                     s_valid,
    input  logic                     s_ready,
    output logic [      8*WIDTH-1:0] s_data,
    output logic [        WIDTH-1:0] s_keep,
    output logic                     s_last,
    output logic                     s_lead,
    input  logic                     m_valid,
    output logic                     m_ready,
    input  logic                     m_last,
    input  logic                     m_bad,
    input  logic                     m_early,
    input  logic [POSITION_BITS-1:0] m_position,
    input  logic [             18:0] m_length
);
  localparam int STEP = $clog2(WIDTH);
  localparam int BEATS = 128 / WIDTH;  // of a descriptor
  localparam int LEADS = WIDTH >= 32 ? 1 : 32 / WIDTH;
  localparam int PLACES = 32 - STEP;  // bits of a number of beats, with a sign above them

  typedef enum logic [3:0] { IDLE, FETCH, FILL, MEASURE, SET, LEAD, BODY, EMPTY, DRAIN } step_t;
  step_t step;
  // The steps that beats and words wait for, each in a register: their decoding would be in the way.
  logic fetching, setting, leading, passing, ending;

  logic [1023:0] descriptor;
  assign set_descriptor = descriptor;
  logic [31:0] length;
  assign length = descriptor[128+:32];

  // Addresses stand in registers before they are needed: the rings' in three steps from registers
  // and counters that changed long before, a word's by counting on. Sums of 64 bits are made as two
  // of 32, the carry in between.
  logic [31:0] in_ring, taken_place, done_place;
  logic [63:0] fetch_at, complete_at;
  logic [31:0] fetch_low, complete_low;
  logic fetch_carry, complete_carry;
  always_ff @(posedge clk) begin
    in_ring <= ~(32'hFFFFFFFF << ring_log2);
    taken_place <= taken & in_ring;
    done_place <= done & in_ring;
    {fetch_carry, fetch_low} <= {1'b0, ring[31:0]} + {1'b0, taken_place[24:0], 7'b0};
    {complete_carry, complete_low} <= {1'b0, completions[31:0]} + {1'b0, done_place[26:0], 5'b0};
    fetch_at <= {ring[63:32] + 32'(taken_place[31:25]) + 32'(fetch_carry), fetch_low};
    complete_at <= {
      completions[63:32] + 32'(done_place[31:27]) + 32'(complete_carry), complete_low
    };
  end

  // Beats to ask for and to get, less one, so that the sign says that there are none left; what is
  // asked for and not yet passed on.
  logic [PLACES:0] to_ask, to_pass, beats_less;
  logic [5:0] open_reads;
  logic asks, passes, room;
  assign rd_valid = !rst && !to_ask[PLACES] && room;
  assign asks = rd_valid && rd_ready;

  // Reads pass from one half of the address to the other at most once in a job, by a sum that is made
  // before: `rd_next` is the upper half, and one.
  logic [31:0] rd_low, rd_high, rd_next;
  logic [32:0] rd_sum;
  assign rd_sum = {1'b0, rd_low} + 33'(WIDTH);
  assign rd_address = {rd_high, rd_low};

  // Words that memory owes. A job passes all of its words on before it ends, so those that are owed in
  // IDLE were asked for before a reset.
  logic [5:0] owed;
  always_ff @(posedge clk) begin
    if (rst_all) owed <= '0;
    else owed <= owed + 6'(asks) - 6'(rd_data_valid);
  end

  // A job begins where one was offered for so many cycles that `fetch_at` is its descriptor's.
  // That one was offered is known by parts of both counters, a cycle later.
  logic [4:0] ripe;
  logic [7:0] differ;
  logic owes;
  integer part;
  always_ff @(posedge clk) begin
    for (part = 0; part < 8; part = part + 1)
      differ[part] <= !rst && offered[4*part+:4] != taken[4*part+:4];
    owes <= owed != 0;
    if (rst) ripe <= '0;
    else ripe <= {ripe[3:0], enable && differ != '0 && !owes};
  end

  logic q_valid, q_ready;
  logic [8*WIDTH-1:0] q_data;
  tc_fifo #(.WIDTH(8 * WIDTH), .DEPTH_LOG2(5)) queue (
      .clk, .rst, .push(rd_data_valid && step != IDLE), .push_data(rd_data),
      .pop_valid(q_valid), .pop_ready(q_ready), .pop_data(q_data)
  );
  assign passes  = q_valid && q_ready;
  assign q_ready = fetching || (passing && s_ready);

  logic [STEP-1:0] odd;
  logic [$clog2(BEATS)-1:0] fetched;
  logic [2:0] led;
  logic [8*WIDTH-1:0] lead_word;
  generate
    if (LEADS == 1) begin : g_one_lead
      assign lead_word = descriptor[1023-:8*WIDTH];
    end else begin : g_leads
      assign lead_word = descriptor[768+8*WIDTH*led[$clog2(LEADS)-1:0]+:8*WIDTH];
    end
  endgenerate
  assign odd = length[STEP-1:0];
  assign set_valid = setting;
  always_comb begin
    s_valid = leading || ending || (passing && q_valid);
    s_lead  = leading;
    s_last  = ending || (passing && to_pass[PLACES]);
    s_data  = leading ? lead_word : q_data;
    s_keep  = '1;
    if (ending) s_keep = '0;
    else if (s_last && odd != '0) s_keep = ~({WIDTH{1'b1}} << odd);
  end

  // A descriptor's words are taken over a cycle after they left the queue.
  logic fills;
  logic [8*WIDTH-1:0] filling;
  always_ff @(posedge clk) begin
    fills <= fetching && q_valid;
    filling <= q_data;
    if (fills) descriptor <= {filling, descriptor[1023:8*WIDTH]};
  end

  logic job_ended;
  always_ff @(posedge clk) begin
    room <= open_reads < 6'd29;
    rd_next <= rd_high + 1'b1;
    beats_less <= (PLACES + 1)'($signed({1'b0, length} - 33'd1) >>> STEP);
    if (rst) begin
      step <= IDLE;
      fetching <= 1'b0;
      setting <= 1'b0;
      leading <= 1'b0;
      passing <= 1'b0;
      ending <= 1'b0;
      taken <= '0;
      cycles_busy <= '0;
      to_ask <= '1;
      open_reads <= '0;
    end else begin
      if (step != IDLE) cycles_busy <= cycles_busy + 1'b1;
      open_reads <= open_reads + 6'(asks) - 6'(passes);
      if (asks) begin
        to_ask <= to_ask - 1'b1;
        rd_low <= rd_sum[31:0];
        if (rd_sum[32]) rd_high <= rd_next;
      end
      case (step)
        IDLE: begin
          {rd_high, rd_low} <= fetch_at;
          fetched <= '0;
          if (ripe == '1) begin
            to_ask <= (PLACES + 1)'(BEATS - 1);
            fetching <= 1'b1;
            step <= FETCH;
          end
        end
        FETCH:
        if (passes) begin
          fetched <= fetched + 1'b1;
          if (fetched == $clog2(BEATS)'(BEATS - 1)) begin
            fetching <= 1'b0;
            step <= FILL;
          end
        end
        FILL: step <= MEASURE;
        MEASURE: begin
          {rd_high, rd_low} <= descriptor[63:0];
          setting <= 1'b1;
          step <= SET;
        end
        SET: begin
          setting <= 1'b0;
          taken <= taken + 1'b1;
          to_ask <= beats_less;
          to_pass <= beats_less - 1'b1;
          led <= '0;
          leading <= 1'b1;
          step <= LEAD;
        end
        LEAD:
        if (s_ready) begin
          led <= led + 1'b1;
          if (led == 3'(LEADS - 1)) begin
            leading <= 1'b0;
            ending <= beats_less[PLACES];
            passing <= !beats_less[PLACES];
            step <= beats_less[PLACES] ? EMPTY : BODY;
          end
        end
        BODY:
        if (q_valid && s_ready) begin
          to_pass <= to_pass - 1'b1;
          if (to_pass[PLACES]) begin
            passing <= 1'b0;
            step <= DRAIN;
          end
        end
        EMPTY:
        if (s_ready) begin
          ending <= 1'b0;
          step <= DRAIN;
        end
        DRAIN: if (job_ended) step <= IDLE;
        default: step <= IDLE;
      endcase
    end
  end

  // Positions, two in a word, then the completion: through a register at the port, which is free when
  // memory takes what is in it. The last word's number goes up when memory took it.
  typedef enum logic [2:0] { TAKE, WORD, REST, ONE, TWO, THREE, FOUR, TOLD } writing_t;
  writing_t writing;
  logic [31:0] count, held, other, elapsed, cycles;
  logic [32:0] room_less;  // positions that there is room for, less one
  logic [28:0] at_low;
  logic [31:0] at_high;
  logic at_carry;
  logic has_half, over, early, bad, free;
  logic [18:0] left;
  assign m_ready = writing == TAKE;
  assign free = !wr_valid || wr_ready;
  assign job_ended = writing == TOLD && wr_ready;

  always_ff @(posedge clk) begin
    if (free) begin
      case (writing)
        WORD, REST: begin
          wr_address <= {at_high, at_low, 3'b0};
          wr_data <= {writing == WORD ? other : 32'b0, held};
        end
        ONE: begin
          wr_address <= complete_at;
          wr_data <= descriptor[255:192];
        end
        TWO: begin
          wr_address <= {complete_at[63:5], 5'd8};
          wr_data <= {13'b0, left, count};
        end
        THREE: begin
          wr_address <= {complete_at[63:5], 5'd16};
          wr_data <= {length, cycles};
        end
        default: begin
          wr_address <= {complete_at[63:5], 5'd24};
          wr_data <= {done + 32'd1, 29'b0, over, early, bad};
        end
      endcase
    end
  end

  always_ff @(posedge clk) begin
    elapsed <= setting ? 32'd1 : elapsed + 1'b1;
    at_carry <= 1'b0;
    if (at_carry) at_high <= at_high + 1'b1;
    if (setting) begin
      room_less <= {1'b0, descriptor[160+:32]} - 33'd1;
      {at_high, at_low} <= descriptor[127:67];
      count <= '0;
      has_half <= 1'b0;
      over <= 1'b0;
    end
    if (rst) begin
      writing <= TAKE;
      done <= '0;
      wr_valid <= 1'b0;
    end else begin
      if (wr_ready) wr_valid <= 1'b0;
      case (writing)
        TAKE:
        if (m_valid && m_last) begin
          left <= m_length;
          early <= m_early;
          bad <= m_bad;
          cycles <= elapsed;
          writing <= has_half ? REST : ONE;
        end else if (m_valid) begin
          if (room_less[32]) over <= 1'b1;
          else begin
            room_less <= room_less - 1'b1;
            count <= count + 1'b1;
            has_half <= !has_half;
            if (has_half) begin
              other <= 32'(m_position);
              writing <= WORD;
            end else held <= 32'(m_position);
          end
        end
        WORD, REST, ONE, TWO, THREE, FOUR:
        if (free) begin
          wr_valid <= 1'b1;
          if (writing == WORD) begin
            {at_carry, at_low} <= {1'b0, at_low} + 30'd1;
            writing <= TAKE;
          end else begin
            case (writing)
              REST: writing <= ONE;
              ONE: writing <= TWO;
              TWO: writing <= THREE;
              THREE: writing <= FOUR;
              default: writing <= TOLD;
            endcase
          end
        end
        default:
        if (wr_ready) begin
          done <= done + 1'b1;
          writing <= TAKE;
        end
      endcase
    end
  end

`ifdef FORMAL
  // Assumed, of whoever is around: settings that do not change, a ring of at most four; a host that
  // has as many jobs under way as the ring has places; a memory that answers what it was asked, later
  // than it was asked; a chunker that tells a packet's end once, behind its last beat. The queue of
  // words is a stand-in that gives any words at any time, as many as went in.
  logic is_new = 1'b1;
  (* anyconst *) logic [63:0] ring_set, completions_set;
  (* anyconst *) logic [4:0] log2_set;
  logic [31:0] places, job_at, offered_before;
  assign places = 32'd1 << log2_set;
  logic open_job, passed_last;
  logic [5:0] held_words;  // in the queue
  always_comb begin
    assume (ring == ring_set && ring[6:0] == 0);
    assume (completions == completions_set && completions[4:0] == 0);
    assume (ring_log2 == log2_set && log2_set <= 2);
    if (is_new) assume (rst && rst_all);
    else assume (!rst_all);
    if (rst) assume (offered == 0);
    else assume (offered - done <= places && offered - done >= offered_before - done);
    if (owed == 0) assume (!rd_data_valid);
    if (held_words == 0) assume (!q_valid);
    if (!open_job) assume (!m_valid);
    if (!passed_last) assume (!(m_valid && m_last));
  end

  // What the job under way has had written: how many words of its completion memory took.
  logic at_port, takes;  // Whether the word at the port is a completion's.
  logic [2:0] told;
  assign takes = wr_valid && wr_ready;
  always_ff @(posedge clk) begin
    is_new <= 1'b0;
    offered_before <= rst ? '0 : offered;
    held_words <= rst ? '0 : held_words + 6'(rd_data_valid && step != IDLE) - 6'(passes);
    if (free) at_port <= writing >= ONE && writing <= FOUR;
    if (rst) begin
      open_job <= 1'b0;
      passed_last <= 1'b0;
      told <= '0;
    end else begin
      if (step == SET) begin
        open_job <= 1'b1;
        passed_last <= 1'b0;
        told <= '0;
      end else begin
        if (s_valid && s_ready && s_last) passed_last <= 1'b1;
        if (m_valid && m_ready && m_last) open_job <= 1'b0;
        if (takes && at_port) told <= told + 1'b1;
      end
    end
  end

  // The rule: addresses and numbers by one sum each, as a host computes them.
  logic [63:0] descriptor_is, completion_is;
  assign descriptor_is = ring + {25'b0, taken & (places - 1), 7'b0};
  assign completion_is = completions + {27'b0, done & (places - 1), 5'b0};
  logic has_job;  // taken, and not completed
  assign has_job = step >= LEAD;
  always_ff @(posedge clk)
    if (!is_new && !rst) begin
      // One job at a time; none that was not offered; none is taken before the last is completed.
      assert (taken == done + 32'(has_job));
      assert (offered - done <= places && (!has_job || offered != done));
      if (step >= FETCH && step <= SET) assert (offered != taken);
      // A descriptor is read from its place, and nothing besides.
      if (step == FETCH && !to_ask[PLACES]) begin
        assert (to_ask < (PLACES + 1)'(BEATS));
        assert (rd_address == descriptor_is + 64'(WIDTH) * 64'((PLACES + 1)'(BEATS - 1) - to_ask));
      end
      if (step == IDLE || step == FILL || step == MEASURE || step == DRAIN) assert (!rd_valid);
      // A completion is four words in order, of the ticket first and of the number last, at its place;
      // done goes up when the last of them was taken, once.
      if (wr_valid && at_port) begin
        assert (has_job && told < 4);
        assert (wr_address == completion_is + 64'({told, 3'b0}));
        if (told == 0) assert (wr_data == descriptor[255:192]);
        if (told == 3) assert (wr_data[63:32] == done + 1);
      end
      if (job_ended) assert (told == 3 && at_port && takes && step == DRAIN);
      if (!has_job) assert (!wr_valid);
      // Positions are written where their number says, and no more of them than there is room for.
      if (writing == WORD || writing == REST) assert ({at_high, at_low} == descriptor[127:67] + 61'((count - 1) >> 1));
      if (has_job) assert (count <= descriptor[160+:32]);
      // The queue is never asked to hold more than it can.
      assert (open_reads <= 6'd30);
    end

  // What induction needs besides: what the states have to do with each other, how many words are
  // where, and how far addresses came.
  logic [PLACES:0] asks_left, passes_left;
  logic taken_1, taken_2, taken_3, done_1, done_2, done_3;
  logic [63:0] taken_at, done_at;
  assign asks_left = to_ask + 1'b1;
  assign passes_left = to_pass + 2'd2;
  assign taken_at = {25'b0, taken & (places - 1), 7'b0};
  assign done_at = {27'b0, done & (places - 1), 5'b0};
  assign taken_1 = taken_place == (taken & (places - 1));
  assign done_1 = done_place == (done & (places - 1));
  assign taken_2 = {fetch_carry, fetch_low} == {1'b0, ring[31:0]} + {1'b0, taken_at[31:0]};
  assign done_2 = {complete_carry, complete_low} == {1'b0, completions[31:0]} + {1'b0, done_at[31:0]};
  assign taken_3 = fetch_at == descriptor_is;
  assign done_3 = complete_at == completion_is;
  always_ff @(posedge clk) begin
    if (!is_new) assert (in_ring == places - 1 && owed <= 6'd30);
    if (!is_new && !rst) begin
      assert (step <= DRAIN && writing <= TOLD);
      assert (fetching == (step == FETCH) && setting == (step == SET) && leading == (step == LEAD));
      assert (passing == (step == BODY) && ending == (step == EMPTY));
      if (fills) assert (step == IDLE || step == FETCH || step == FILL);
      assert (open_job == (has_job && writing <= WORD));
      if (writing >= REST) assert (step == DRAIN && passed_last);
      if (has_job) assert (passed_last == (step == DRAIN));
      if (has_job && writing <= REST) assert (told == 0);
      if (writing <= REST) assert (!(wr_valid && at_port));
      if (writing >= ONE) assert (told + 3'(wr_valid && at_port) == 3'(writing - ONE));
      if (writing == TOLD) assert (wr_valid && at_port);
      if (!has_job) assert (writing == TAKE);

      assert (to_ask == '1 || !to_ask[PLACES]);
      if (step != IDLE) assert (7'(held_words) + 7'(owed) == 7'(open_reads));
      else assert (held_words == 0);
      if (step == FETCH) assert (asks_left + (PLACES + 1)'(open_reads) + (PLACES + 1)'(fetched) == (PLACES + 1)'(BEATS));
      else if (step == LEAD || step == BODY) begin
        assert (asks_left + (PLACES + 1)'(open_reads) == passes_left);
        assert (passes_left <= (PLACES + 1)'(1) << PLACES && asks_left <= passes_left);
      end else assert (open_reads == 0 && to_ask == '1);
      if (step == BODY) assert (passes_left != 0);
      if (step >= SET) assert (beats_less == (PLACES + 1)'($signed({1'b0, length} - 33'd1) >>> STEP));
      if (step == LEAD) assert (beats_less + 1'b1 == passes_left);
      if (room) assert (open_reads <= 6'd29);

      if (step == BODY || step == EMPTY || step == DRAIN) assert (taken_1);
      if (step == DRAIN) assert (taken_2);
      if (step == DRAIN && writing >= ONE) assert (taken_3);
      if (step == IDLE || step == DRAIN) begin
        if (differ != '0) assert (offered != taken);
        if (!owes) assert (owed == 0);
      end
      if (step == IDLE) begin
        if (ripe[0]) assert (taken_1 && owed == 0 && offered != taken);
        if (ripe[1:0] == '1) assert (taken_2);
        if (ripe[2:0] == '1) assert (taken_3);
      end
      if (step >= FETCH) assert (done_1);
      if (step >= FILL) assert (done_2);
      if (step >= MEASURE) assert (done_3);

      if (has_job) assert (room_less == {1'b0, descriptor[160+:32]} - 33'd1 - {1'b0, count});
      if (has_job && writing <= REST) assert (has_half == count[0]);
      if (writing == WORD) assert (!has_half && count != 0);
      if (writing == REST) assert (has_half);
      if (at_carry) assert (writing == TAKE && !has_half);
      if (has_job && writing == TAKE)
        assert ({at_high + 32'(at_carry), at_low} == descriptor[127:67] + 61'(count >> 1));
    end
  end
`endif
endmodule
