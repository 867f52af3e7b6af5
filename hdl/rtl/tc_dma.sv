// Moves jobs: descriptors and buffers in, positions and completions out.
//
// A descriptor of 128 bytes names a buffer, its flow's context and what to do (docs/formats/
// accelerator.md draws it). One job is worked on at a time; its buffer streams through the chunker as
// fast as memory gives it, while positions are written as they come, two in a word. The last word of
// a completion has its number, so whoever reads that sees the rest.
//
// Memory is a port of WIDTH bytes: reads are answered in order and never wait, since no more are
// asked for than the queue here can hold; writes of eight bytes wait for `wr_ready`.
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

  typedef enum logic [2:0] { IDLE, FETCH, SET, LEAD, BODY, EMPTY, DRAIN } step_t;
  step_t step;

  logic [1023:0] descriptor;
  assign set_descriptor = descriptor;
  logic [31:0] length;
  assign length = descriptor[128+:32];

  // Beats to ask for and to get; what is asked for and not yet passed on.
  logic [31:0] to_ask, to_pass, beats_of;
  logic [5:0] open_reads;
  logic asks, passes;
  assign rd_valid = !rst && to_ask != 0 && open_reads < 6'd30;
  assign asks = rd_valid && rd_ready;

  // Words that memory owes. A job passes all of its words on before it ends, so those that are owed in
  // IDLE were asked for before a reset.
  logic [5:0] owed;
  always_ff @(posedge clk) begin
    if (rst_all) owed <= '0;
    else owed <= owed + 6'(asks) - 6'(rd_data_valid);
  end
  assign beats_of = (length + (WIDTH - 1)) >> STEP;

  logic q_valid, q_ready;
  logic [8*WIDTH-1:0] q_data;
  tc_fifo #(.WIDTH(8 * WIDTH), .DEPTH_LOG2(5)) queue (
      .clk, .rst, .push(rd_data_valid && step != IDLE), .push_data(rd_data),
      .pop_valid(q_valid), .pop_ready(q_ready), .pop_data(q_data)
  );
  assign passes  = q_valid && q_ready;
  assign q_ready = step == FETCH || (step == BODY && s_ready);

  logic [STEP-1:0] odd;
  logic [$clog2(BEATS):0] fetched;
  logic [2:0] led;
  assign odd = length[STEP-1:0];
  assign set_valid = step == SET;
  always_comb begin
    s_valid = step == LEAD || step == EMPTY || (step == BODY && q_valid);
    s_lead  = step == LEAD;
    s_last  = step == EMPTY || (step == BODY && to_pass == 1);
    s_data  = step == LEAD ? descriptor[1023-8*WIDTH*(LEADS-1)-:8*WIDTH] : q_data;
    s_keep  = '1;
    if (step == EMPTY) s_keep = '0;
    else if (s_last && odd != '0) s_keep = ~({WIDTH{1'b1}} << odd);
  end

  logic job_ended;
  always_ff @(posedge clk) begin
    if (rst) begin
      step <= IDLE;
      taken <= '0;
      cycles_busy <= '0;
      to_ask <= '0;
      to_pass <= '0;
      open_reads <= '0;
      fetched <= '0;
      led <= '0;
    end else begin
      if (step != IDLE) cycles_busy <= cycles_busy + 1'b1;
      open_reads <= open_reads + 6'(asks) - 6'(passes);
      if (asks) begin
        to_ask <= to_ask - 1'b1;
        rd_address <= rd_address + 64'(WIDTH);
      end
      case (step)
        IDLE:
        if (enable && offered != taken && owed == 0) begin
          rd_address <= ring + {25'b0, taken & ~(32'hFFFFFFFF << ring_log2), 7'b0};
          to_ask <= BEATS;
          fetched <= '0;
          step <= FETCH;
        end
        FETCH:
        if (passes) begin
          descriptor <= {q_data, descriptor[1023:8*WIDTH]};
          fetched <= fetched + 1'b1;
          if (fetched == ($clog2(BEATS) + 1)'(BEATS - 1)) step <= SET;
        end
        SET: begin
          taken <= taken + 1'b1;
          rd_address <= descriptor[63:0];
          to_ask <= beats_of;
          to_pass <= beats_of;
          led <= '0;
          step <= LEAD;
        end
        LEAD:
        if (s_ready) begin
          if (LEADS > 1) descriptor[1023:768] <= descriptor[1023:768] >> (8 * WIDTH % 256);
          led <= led + 1'b1;
          if (led == 3'(LEADS - 1)) step <= to_pass == 0 ? EMPTY : BODY;
        end
        BODY:
        if (q_valid && s_ready) begin
          to_pass <= to_pass - 1'b1;
          if (to_pass == 1) step <= DRAIN;
        end
        EMPTY: if (s_ready) step <= DRAIN;
        DRAIN: if (job_ended) step <= IDLE;
        default: step <= IDLE;
      endcase
    end
  end

  // Positions, two in a word, then the completion.
  typedef enum logic [2:0] { TAKE, WORD, REST, ONE, TWO, THREE, FOUR } writing_t;
  writing_t writing;
  logic [31:0] count, held, cycles, began;
  logic has_half, over, early, bad;
  logic [18:0] left;
  logic [63:0] completion;
  assign m_ready = writing == TAKE;
  assign wr_valid = writing != TAKE && !(writing == REST && !has_half);
  assign job_ended = writing == FOUR && wr_ready;
  logic fits;
  assign fits = count < descriptor[160+:32];

  always_comb begin
    completion = completions + {27'b0, done & ~(32'hFFFFFFFF << ring_log2), 5'b0};
    wr_address = completion;
    wr_data = {32'b0, held};
    case (writing)
      WORD, REST: begin
        // The word that holds the position before `count`, which was counted already.
        wr_address = descriptor[127:64] + {29'b0, (count - 1'b1) >> 1, 3'b0};
        if (writing == WORD) wr_data = {cycles, held};
      end
      ONE: wr_data = descriptor[255:192];
      TWO: begin
        wr_address = completion + 8;
        wr_data = {13'b0, left, count};
      end
      THREE: begin
        wr_address = completion + 16;
        wr_data = {length, cycles};
      end
      FOUR: begin
        wr_address = completion + 24;
        wr_data = {done + 32'd1, 29'b0, over, early, bad};
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      writing <= TAKE;
      done <= '0;
      count <= '0;
      has_half <= 1'b0;
      over <= 1'b0;
    end else begin
      if (step == SET) began <= cycles_busy;
      case (writing)
        TAKE:
        if (m_valid && m_last) begin
          left <= m_length;
          early <= m_early;
          bad <= m_bad;
          cycles <= cycles_busy - began;
          writing <= REST;
        end else if (m_valid) begin
          if (!fits) over <= 1'b1;
          else begin
            count <= count + 1'b1;
            has_half <= !has_half;
            if (has_half) begin
              cycles <= 32'(m_position);  // The other half of the word; free until the end.
              writing <= WORD;
            end else held <= 32'(m_position);
          end
        end
        WORD: if (wr_ready) writing <= TAKE;
        REST: if (wr_ready || !has_half) writing <= ONE;
        ONE: if (wr_ready) writing <= TWO;
        TWO: if (wr_ready) writing <= THREE;
        THREE: if (wr_ready) writing <= FOUR;
        FOUR:
        if (wr_ready) begin
          done <= done + 1'b1;
          count <= '0;
          has_half <= 1'b0;
          over <= 1'b0;
          writing <= TAKE;
        end
        default: writing <= TAKE;
      endcase
    end
  end
endmodule
