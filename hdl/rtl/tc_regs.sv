// Registers of 32 bits (docs/formats/accelerator.md): what the core is, where its rings are, how
// far it came. A read answers in the next cycle.
module tc_regs #(
    parameter int WIDTH = 8,
    parameter int FUNCTION = 0
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        reg_write,
    input  logic [ 5:0] reg_address,  // in words
    input  logic [31:0] reg_in,
    output logic [31:0] reg_out,
    output logic        enable,
    output logic        reset_core,
    output logic [63:0] ring,
    output logic [63:0] completions,
    output logic [ 4:0] ring_log2,
    output logic [31:0] offered,
    input  logic [31:0] taken,
    input  logic [31:0] done,
    input  logic [31:0] cycles_busy
);
  always_ff @(posedge clk) begin
    reset_core <= rst;
    if (rst) begin
      enable <= 1'b0;
      ring <= '0;
      completions <= '0;
      ring_log2 <= '0;
      offered <= '0;
    end else if (reg_write) begin
      case (reg_address)
        6'h02: begin
          enable <= reg_in[0];
          reset_core <= reg_in[1];
          if (reg_in[1]) offered <= '0;
        end
        6'h04: ring[31:0] <= reg_in;
        6'h05: ring[63:32] <= reg_in;
        6'h06: completions[31:0] <= reg_in;
        6'h07: completions[63:32] <= reg_in;
        6'h08: ring_log2 <= reg_in[4:0];
        6'h09: offered <= reg_in;
        default: ;
      endcase
    end
    case (reg_address)
      6'h00: reg_out <= 32'h4341_4354;  // "TCAC"
      6'h01: reg_out <= {8'd1, 8'(FUNCTION), 16'(WIDTH)};
      6'h02: reg_out <= {31'b0, enable};
      6'h08: reg_out <= {27'b0, ring_log2};
      6'h09: reg_out <= offered;
      6'h0a: reg_out <= taken;
      6'h0b: reg_out <= done;
      6'h0c: reg_out <= cycles_busy;
      default: reg_out <= '0;
    endcase
  end
endmodule
