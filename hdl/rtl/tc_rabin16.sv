// Rabin's fingerprint over GF(2), degree 16, of every window of a beat.
//
// 1. Every eighth lane has its fingerprint from doublings: f2k = f_k(older) * x^(8k) + f_k(newer),
//    over blocks of eight bytes that neighbours share.
// 2. The seven lanes after it roll, a lane a cycle: f' = f * x^8 + entering + leaving * x^256.
//    Entering and leaving are one sum, made ahead.
// A constant product is a matrix of bits, so every step is a few XORs. Nothing is fed back.
module tc_rabin16 #(
    parameter int WIDTH = 8,
    localparam int VIEW = 8 * (31 + WIDTH)
) (
    input  logic                clk,
    input  logic [    VIEW-1:0] view,
    // The fingerprints, 3 + min(WIDTH, 8) cycles later; lane i at bit 16 * i.
    output logic [16*WIDTH-1:0] value
);
  localparam int LANES = WIDTH < 8 ? WIDTH : 8;  // Lanes that hang on one head.
  localparam int HEADS = WIDTH / LANES;
  localparam int BLOCKS = HEADS + 3;

  // x^16 = x^12 + x^3 + x + 1.
  function automatic [15:0] power(input integer bits, input integer from);
    integer n;
    begin
      power = 16'b1 << from;
      for (n = 0; n < bits; n = n + 1) power = {power[14:0], 1'b0} ^ (power[15] ? 16'h100B : 16'h0);
    end
  endfunction

  // The product with x^bits as a matrix: bit 16 * r + n says that bit n of the factor is in bit r.
  function automatic [255:0] matrix(input integer bits);
    integer n, r;
    logic [15:0] column;
    begin
      for (n = 0; n < 16; n = n + 1) begin
        column = power(bits, n);
        for (r = 0; r < 16; r = r + 1) matrix[16*r+n] = column[r];
      end
    end
  endfunction

  localparam logic [255:0] X8 = matrix(8);
  localparam logic [255:0] X16 = matrix(16);
  localparam logic [255:0] X32 = matrix(32);
  localparam logic [255:0] X64 = matrix(64);
  localparam logic [255:0] X128 = matrix(128);
  localparam logic [255:0] X256 = matrix(256);

  /* verilator lint_off UNUSEDSIGNAL */
  // Not all of them in the narrowest one.
  logic [16*2*BLOCKS-1:0] four;
  logic [16*BLOCKS-1:0] eight;
  logic [16*(BLOCKS-1)-1:0] sixteen;
  logic [16*HEADS-1:0] head;

  /* verilator lint_on UNUSEDSIGNAL */

  genvar i, b, l;
  generate
    for (i = 0; i < 2 * BLOCKS; i++) begin : g_four
      logic [15:0] older, newer;
      assign older = {view[32*i+:8], view[32*i+8+:8]};
      assign newer = {view[32*i+16+:8], view[32*i+24+:8]};
      for (b = 0; b < 16; b++) begin : g_bit
        localparam logic [15:0] ROW = X16[16*b+:16];
        always_ff @(posedge clk) four[16*i+b] <= (^(older & ROW)) ^ newer[b];
      end
    end
    for (i = 0; i < BLOCKS; i++) begin : g_eight
      for (b = 0; b < 16; b++) begin : g_bit
        localparam logic [15:0] ROW = X32[16*b+:16];
        always_ff @(posedge clk) eight[16*i+b] <= (^(four[16*(2*i)+:16] & ROW)) ^ four[16*(2*i+1)+b];
      end
    end
    for (i = 0; i < BLOCKS - 1; i++) begin : g_sixteen
      for (b = 0; b < 16; b++) begin : g_bit
        localparam logic [15:0] ROW = X64[16*b+:16];
        always_ff @(posedge clk) sixteen[16*i+b] <= (^(eight[16*i+:16] & ROW)) ^ eight[16*(i+1)+b];
      end
    end
    for (i = 0; i < HEADS; i++) begin : g_head
      for (b = 0; b < 16; b++) begin : g_bit
        localparam logic [15:0] ROW = X128[16*b+:16];
        always_ff @(posedge clk) head[16*i+b] <= (^(sixteen[16*i+:16] & ROW)) ^ sixteen[16*(i+2)+b];
      end
      for (l = 0; l < LANES; l++) begin : g_lane
        logic [15:0] rolled;
        if (l == 0) begin : g_first
          assign rolled = head[16*i+:16];
        end else begin : g_next
          // The byte that leaves and the one that enters between this lane and the one before.
          logic [15:0] change, changed;
          for (b = 0; b < 16; b++) begin : g_bit
            localparam logic [15:0] ROW = X256[16*b+:16];
            logic leaving;
            assign leaving = ^({8'b0, view[8*(8*i+l-1)+:8]} & ROW);
            if (b < 8) begin : g_low
              always_ff @(posedge clk) change[b] <= leaving ^ view[8*(8*i+l+31)+b];
            end else begin : g_high
              always_ff @(posedge clk) change[b] <= leaving;
            end
          end
          tc_delay #(.WIDTH(16), .CYCLES(2 + l)) wait_turn (.clk, .in(change), .out(changed));
          for (b = 0; b < 16; b++) begin : g_roll
            localparam logic [15:0] ROW = X8[16*b+:16];
            always_ff @(posedge clk) rolled[b] <= (^(g_lane[l-1].rolled & ROW)) ^ changed[b];
          end
        end
        tc_delay #(.WIDTH(16), .CYCLES(LANES - 1 - l)) align (
            .clk, .in(rolled), .out(value[16*(8*i+l)+:16])
        );
      end
    end
  endgenerate
endmodule
