// The source's Rabin fingerprint, modulo Q = 2^64 - 59, of every window of a beat.
//
// With base 16 and a window of 32 bytes, F = sum of t(31-m) * 16^m. The older half is worth 2^64
// more, which is 59 modulo Q, so F = sum over m = 0..15 of c * 16^m with c = t(new) + 59 * t(old),
// one small number for each byte. Sums of c double: two bytes, four, eight, sixteen. All lanes
// share them, nothing is fed back, and the longest carry has 32 bits.
//
// What is above 2^64 folds once more. Only the 16 lowest bits of F are needed (masks have no more),
// and whether the sum reaches Q, which takes a carry through ones: an AND, no adder.
module tc_rabin_source #(
    parameter int WIDTH = 8,
    localparam int VIEW = 8 * (31 + WIDTH)
) (
    input  logic                clk,
    input  logic [    VIEW-1:0] view,
    // The 16 lowest bits of the fingerprints, thirteen cycles later; lane i at bit 16 * i.
    output logic [16*WIDTH-1:0] low
);
  localparam int N = WIDTH + 15;  // Bytes that have a c: 16 to 30 + WIDTH of the view.

  /* verilator lint_off UNUSEDSIGNAL */
  // The oldest have no older ones to be summed with.
  logic [14*N-1:0] c;  // 14 bits each
  logic [18*N-1:0] c2;  // 18 bits each
  logic [26*N-1:0] c4;  // 26 bits each
  logic [42*N-1:0] c8;  // 42 bits each
  /* verilator lint_on UNUSEDSIGNAL */

  genvar i;
  generate
    for (i = 0; i < N; i++) begin : g_byte
      logic [7:0] new1, old1, old2;
      logic [10:0] five;
      logic signed [11:0] rest;
      // 59 * old + new = 64 * old + (new - 5 * old).
      always_ff @(posedge clk) begin
        new1 <= view[8*(i+16)+:8];
        old1 <= view[8*i+:8];
        five <= {1'b0, view[8*i+:8], 2'b0} + {3'b0, view[8*i+:8]};
        rest <= $signed({4'b0, new1}) - $signed({1'b0, five});
        old2 <= old1;
        c[14*i+:14] <= {old2, 6'b0} + 14'(rest);
      end
      if (i >= 1) begin : g_2
        always_ff @(posedge clk) begin
          c2[18*i+:18] <= {4'b0, c[14*i+:14]} + {c[14*(i-1)+:14], 4'b0};
        end
      end else begin : g_no2
        assign c2[18*i+:18] = '0;
      end
      if (i >= 3) begin : g_4
        always_ff @(posedge clk) c4[26*i+:26] <= {8'b0, c2[18*i+:18]} + {c2[18*(i-2)+:18], 8'b0};
      end else begin : g_no4
        assign c4[26*i+:26] = '0;
      end
      if (i >= 7) begin : g_8
        always_ff @(posedge clk) c8[42*i+:42] <= {16'b0, c4[26*i+:26]} + {c4[26*(i-4)+:26], 16'b0};
      end else begin : g_no8
        assign c8[42*i+:42] = '0;
      end
    end
    for (i = 0; i < WIDTH; i++) begin : g_lane
      logic [10:0] seam;
      logic [31:0] above, older;
      logic [31:0] newer1;
      logic [15:0] low2, low3, low4, low5;
      logic [9:0] seam2;
      logic ones3, ones4, ones5, ones2a;
      logic [16:0] sum;
      logic ones6;
      logic [10:0] over1;
      logic [12:0] five;
      logic [10:0] over2;
      logic [15:0] fold;
      logic [15:0] result;
      always_ff @(posedge clk) begin
        // Sixteen bytes: the older eight stand 32 bits higher. First where both have bits…
        seam   <= {1'b0, c8[42*(i+7)+:10]} + {1'b0, c8[42*(i+15)+32+:10]};
        older  <= c8[42*(i+7)+10+:32];
        newer1 <= c8[42*(i+15)+:32];
        // …then the carry.
        above  <= older + {31'b0, seam[10]};
        seam2  <= seam[9:0];
        low2   <= newer1[15:0];
        ones2a <= &newer1[31:16];
        // What is over 2^64, plus one: reaching Q is reaching 2^64 with 59 more.
        over1  <= {1'b0, above[31:22]} + 1'b1;
        ones3  <= ones2a && (&seam2) && (&above[21:0]);
        low3   <= low2;
        five   <= {over1, 2'b0} + {2'b0, over1};
        over2  <= over1;
        ones4  <= ones3;
        low4   <= low3;
        fold   <= 16'({over2, 6'b0} - {4'b0, five});
        ones5  <= ones4;
        low5   <= low4;
        sum    <= {1'b0, low5} + {1'b0, fold};
        ones6  <= ones5;
        result <= sum[15:0] - ((sum[16] && ones6) ? 16'd0 : 16'd59);
      end
      assign low[16*i+:16] = result;
    end
  endgenerate
endmodule
