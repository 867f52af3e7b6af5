// MAXP: bytes whose window had the greatest fingerprint around, a byte a cycle.
//
// The fingerprint is the source's Rabin modulo Q = 2^64 - 59 of 32 bytes with base 16, rolled: the
// byte that leaves is worth 16^32 = 2^128, which is 59^2 modulo Q. A window is taken if its value is
// greater than the sixteen before it, and no less than the sixteen behind it. The last of those says
// so, as in `chunking`'s `MaxP`: candidates depend on earlier bytes only.
//
// Each of the last sixteen values keeps whether it may still be taken. A new value is compared with
// all of them once, which answers both questions: whether they are greater than what came behind
// them, and whether it is greater than what came before it. So there are sixteen comparisons, not
// thirty-two. Stands alone; it was not placed, and rolling within a cycle limits its clock.
module tc_maxp (
    input  logic       clk,
    input  logic       rst,
    input  logic       s_valid,
    // The first byte of a stream.
    input  logic       s_first,
    input  logic [7:0] s_data,
    // For each byte, three cycles later: true if it is a candidate.
    output logic       m_valid,
    output logic       m_candidate
);
  localparam int HALF = 16, WINDOW = 32;
  localparam logic signed [66:0] Q = (67'sd1 << 64) - 67'sd59;

  // Rolling: the value of the window that ends with the byte.
  logic [7:0] bytes[WINDOW];
  logic [63:0] value, rolled;
  logic [7:0] oldest;
  logic signed [66:0] sum;
  logic [63:0] prior;
  assign prior  = s_first ? '0 : value;
  assign oldest = s_first ? '0 : bytes[WINDOW-1];
  assign sum = $signed({3'b0, prior[59:0], 4'b0}) + $signed(67'(prior[63:60]) * 67'd59) +
               $signed(67'(s_data)) - $signed(67'(oldest) * 67'd3481);
  always_comb begin
    if (sum < 0) rolled = 64'(sum + Q);
    else if (sum >= Q) rolled = 64'(sum - Q);
    else rolled = 64'(sum);
  end

  logic has_value, value_is_first;
  integer i;
  always_ff @(posedge clk) begin
    has_value <= s_valid && !rst;
    if (s_valid) begin
      value <= rolled;
      value_is_first <= s_first;
      bytes[0] <= s_data;
      for (i = 1; i < WINDOW; i = i + 1) bytes[i] <= s_first ? '0 : bytes[i-1];
    end
  end

  // The sixteen values before, the newest first, and which of them may still be taken.
  logic [63:0] values[HALF];
  logic [HALF-1:0] may, greater_or_equal;
  // Bytes of the stream before this one, as far as they matter.
  logic [6:0] count;
  localparam logic [6:0] FULL = 7'(WINDOW + 2 * HALF - 1);
  genvar g;
  generate
    for (g = 0; g < HALF; g++) begin : g_compare
      assign greater_or_equal[g] = values[g] >= value;
    end
  endgenerate

  logic [6:0] seen;
  assign seen = value_is_first ? '0 : count;
  always_ff @(posedge clk) begin
    m_valid <= has_value && !rst;
    if (has_value) begin
      // The oldest value has sixteen behind it now; all sixteen before it were whole windows.
      m_candidate <= seen == FULL && may[HALF-1] && greater_or_equal[HALF-1];
      count <= seen == FULL ? FULL : seen + 1'b1;
      values[0] <= value;
      for (i = 1; i < HALF; i = i + 1) values[i] <= values[i-1];
      may <= {may[HALF-2:0] & greater_or_equal[HALF-2:0], greater_or_equal == '0};
    end
  end
endmodule
