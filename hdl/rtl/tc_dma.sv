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
  logic fetching, leading, passing, ending;

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
  logic [4:0] ripe;
  always_ff @(posedge clk) begin
    if (rst) ripe <= '0;
    else ripe <= {ripe[3:0], enable && offered != taken && owed == 0};
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
  assign set_valid = step == SET;
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
          step <= SET;
        end
        SET: begin
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
    elapsed <= step == SET ? 32'd1 : elapsed + 1'b1;
    at_carry <= 1'b0;
    if (at_carry) at_high <= at_high + 1'b1;
    if (step == SET) begin
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
endmodule
