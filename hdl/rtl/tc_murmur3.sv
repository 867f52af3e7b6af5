// MurmurHash3 in 128 bits (the form for 64-bit processors), VNRE's fingerprint of a chunk: a block of
// 16 bytes in seven cycles, and nine cycles more for the end.
//
// Beats have 16 bytes, lowest first; the last beat of a chunk (`s_last`) may have fewer, also none,
// and only then is `s_count` below 16. Bytes beyond it are ignored. A chunk's seed is that of its
// first beat. The hash is h1 in the low half and h2 in the high one.
//
// Source: A. Appleby, MurmurHash3 (public domain, 2011), MurmurHash3_x64_128. Two multipliers of 64
// bits serve both halves, and all steps. It was not placed.
module tc_murmur3 #(
    parameter int LENGTH_BITS = 24
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [ 31:0] seed,
    input  logic         s_valid,
    output logic         s_ready,
    input  logic [127:0] s_data,
    input  logic [  4:0] s_count,
    input  logic         s_last,
    output logic         m_valid,
    input  logic         m_ready,
    output logic [127:0] m_hash
);
  localparam logic [63:0] C1 = 64'h87c37b91114253d5, C2 = 64'h4cf5ad432745937f;
  localparam logic [63:0] F1 = 64'hff51afd7ed558ccd, F2 = 64'hc4ceb9fe1a85ec53;
  localparam logic [63:0] N1 = 64'h0000000052dce729, N2 = 64'h0000000038495ab5;

  typedef enum logic [3:0] {
    TAKE, FIRST, SECOND, LOW, LOW_DONE, HIGH, HIGH_DONE, SIZE, CROSS_1, CROSS_2, FOLD_1, FOLD_2,
    FOLD_3, SUM_1, SUM_2, TELL
  } step_t;
  step_t step;

  logic [63:0] h1, h2, k1, k2, t;
  logic [LENGTH_BITS-1:0] length;
  logic first, last, whole;

  assign s_ready = step == TAKE;
  assign m_valid = step == TELL;
  assign m_hash  = {h2, h1};

  logic [127:0] kept;
  genvar i;
  generate
    for (i = 0; i < 16; i++) begin : g_byte
      assign kept[8*i+:8] = s_count > i ? s_data[8*i+:8] : 8'b0;
    end
  endgenerate

  // The multipliers' inputs by step.
  logic [63:0] a, b, by_a, by_b, product_a, product_b;
  always_comb begin
    {a, b, by_a, by_b} = {k1, k2, C1, C2};
    case (step)
      SECOND: {a, b, by_a, by_b} = {{k1[32:0], k1[63:33]}, {k2[30:0], k2[63:31]}, C2, C1};
      FOLD_1: {a, b, by_a, by_b} = {h1 ^ (h1 >> 33), h2 ^ (h2 >> 33), F1, F1};
      FOLD_2: {a, b, by_a, by_b} = {k1 ^ (k1 >> 33), k2 ^ (k2 >> 33), F2, F2};
      default: ;
    endcase
  end
  assign product_a = a * by_a;
  assign product_b = b * by_b;

  logic [63:0] x1, x2, size;
  assign x1   = h1 ^ k1;
  assign x2   = h2 ^ k2;
  assign size = 64'(length);

  always_ff @(posedge clk) begin
    case (step)
      TAKE:
      if (s_valid) begin
        {k2, k1} <= kept;
        last <= s_last;
        whole <= s_count == 16;
        length <= (first ? '0 : length) + LENGTH_BITS'(s_count);
        if (first) {h2, h1} <= {32'b0, seed, 32'b0, seed};
      end
      FIRST, SECOND, FOLD_1, FOLD_2: {k2, k1} <= {product_b, product_a};
      LOW:
      if (whole) t <= {x1[36:0], x1[63:37]} + h2;
      else {h2, h1} <= {x2, x1};
      LOW_DONE: h1 <= t + (t << 2) + N1;
      HIGH: t <= {x2[32:0], x2[63:33]} + h1;
      HIGH_DONE: h2 <= t + (t << 2) + N2;
      SIZE: {h2, h1} <= {h2 ^ size, h1 ^ size};
      CROSS_1, SUM_1: h1 <= h1 + h2;
      CROSS_2, SUM_2: h2 <= h2 + h1;
      FOLD_3: {h2, h1} <= {k2 ^ (k2 >> 33), k1 ^ (k1 >> 33)};
      default: ;
    endcase
    if (rst) begin
      step  <= TAKE;
      first <= 1'b1;
    end else
      case (step)
        TAKE: if (s_valid) step <= FIRST;
        LOW: step <= whole ? LOW_DONE : SIZE;
        HIGH_DONE: step <= last ? SIZE : TAKE;
        TELL: if (m_ready) step <= TAKE;
        FIRST: step <= SECOND;
        SECOND: step <= LOW;
        LOW_DONE: step <= HIGH;
        HIGH: step <= HIGH_DONE;
        SIZE: step <= CROSS_1;
        CROSS_1: step <= CROSS_2;
        CROSS_2: step <= FOLD_1;
        FOLD_1: step <= FOLD_2;
        FOLD_2: step <= FOLD_3;
        FOLD_3: step <= SUM_1;
        SUM_1: step <= SUM_2;
        SUM_2: step <= TELL;
        default: step <= TAKE;
      endcase
    if (!rst && step == TAKE && s_valid) first <= s_last;
  end
endmodule
