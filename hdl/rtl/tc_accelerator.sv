// The whole: registers, the mover of jobs, and one chunker. Jobs bring their flow's context, so one
// flow of the chunker is enough.
module tc_accelerator #(
    parameter int WIDTH = 8,
    parameter int FUNCTION = 0
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               reg_write,
    input  logic [        5:0] reg_address,
    input  logic [       31:0] reg_in,
    output logic [       31:0] reg_out,
    output logic               rd_valid,
    input  logic               rd_ready,
    output logic [       63:0] rd_address,
    input  logic               rd_data_valid,
    input  logic [8*WIDTH-1:0] rd_data,
    output logic               wr_valid,
    input  logic               wr_ready,
    output logic [       63:0] wr_address,
    output logic [       63:0] wr_data
);
  logic enable, core_rst, set_valid;
  logic [63:0] ring, completions;
  logic [4:0] ring_log2;
  logic [31:0] offered, taken, done, cycles_busy;
  tc_regs #(.WIDTH(WIDTH), .FUNCTION(FUNCTION)) regs (
      .clk, .rst, .reg_write, .reg_address, .reg_in, .reg_out, .enable, .reset_core(core_rst),
      .ring, .completions, .ring_log2, .offered, .taken, .done, .cycles_busy
  );

  /* verilator lint_off UNUSEDSIGNAL */
  logic [1023:0] descriptor;  // Some of its fields are the mover's, some are nobody's yet.
  logic id;
  /* verilator lint_on UNUSEDSIGNAL */
  logic s_valid, s_ready, s_last, s_lead, m_valid, m_ready, m_last, m_bad, m_early;
  logic [8*WIDTH-1:0] s_data;
  logic [WIDTH-1:0] s_keep;
  logic [23:0] m_position;
  logic [18:0] m_length;
  tc_dma #(.WIDTH(WIDTH)) dma (
      .clk, .rst(core_rst), .rst_all(rst), .enable, .ring, .completions, .ring_log2, .offered,
      .taken, .done, .cycles_busy, .rd_valid, .rd_ready, .rd_address, .rd_data_valid, .rd_data,
      .wr_valid, .wr_ready, .wr_address, .wr_data, .set_valid, .set_descriptor(descriptor),
      .s_valid, .s_ready, .s_data, .s_keep, .s_last, .s_lead, .m_valid, .m_ready, .m_last, .m_bad,
      .m_early, .m_position, .m_length
  );
  tc_chunker #(.WIDTH(WIDTH), .FUNCTION(FUNCTION), .FLOWS_LOG2(0)) chunker (
      .clk, .rst(core_rst), .set_valid, .set_flow(1'b0),
      .set_loose(descriptor[8*32+:16]), .set_strict(descriptor[8*34+:16]),
      .set_magic(descriptor[8*36]), .set_off(descriptor[8*36+1]),
      .set_at_min(descriptor[8*36+2]), .set_pass(descriptor[8*36+3]),
      .set_early(descriptor[8*36+4]), .set_known(descriptor[8*37+:5]),
      .set_min(descriptor[8*40+:19]), .set_expected(descriptor[8*44+:19]),
      .set_max(descriptor[8*48+:19]), .set_length(descriptor[8*52+:19]),
      .s_valid, .s_ready, .s_data, .s_keep, .s_last, .s_lead, .s_id(1'b0),
      .m_valid, .m_ready, .m_last, .m_bad, .m_early, .m_id(id), .m_position, .m_length
  );
endmodule
