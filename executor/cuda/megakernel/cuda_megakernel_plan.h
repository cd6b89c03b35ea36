// Finds ranges of consecutive steps in a plan, each step over one row, that one megakernel can execute, and plans its program:
// the slot of each instruction's result, the instructions that read it, and the results that must go to memory because a step
// outside reads them. Needs no device. CudaMegakernel executes the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/decode/instruction_shape.h"
#include "schema/graph/plan.h"

namespace genesis {

inline constexpr std::string_view kMegakernelName = "megakernel";  // the name in --disable and in reports

// The place from which an instruction reads a vector.
struct OperandSource {
  int instruction = -1;  // index in the megakernel; -1: in memory, as the step says
  int64_t element = 0;   // among all elements that the instruction produces, output after output
};

struct PlannedInstruction {
  size_t step = 0;  // index in the plan
  cuda::InstructionShape shape;
  // By shape.vectors(); of a taken norm, the input of the norm. A mixture has the logits of its experts in addition.
  std::vector<OperandSource> sources;
  int q_norm = -1, k_norm = -1;  // norms that the instruction computes itself, of q or x, and of k; -1: none
  int route = -1;                // the route that a mixture computes itself
  OperandSource addend;
  std::vector<bool> kept;  // by shape.elements: the output is also written to memory
  int slot = -1;           // the slot of the result; -1: it goes to memory only
};

struct MegakernelPlan {
  std::vector<PlannedInstruction> instructions;  // one per step, without gaps
  int slots = 0;
  int64_t slot_elements = 0;  // size of the largest slot, with two elements to a word

  size_t first() const { return instructions.front().step; }
  size_t end() const { return instructions.back().step + 1; }
};

// A block that begins an instruction which overwrites a slot, or memory that other instructions read, must know that all blocks
// have finished reading. It does if the instruction depends on everything those other instructions have read. A megakernel ends
// before a step for which this does not hold, and after kMaxInstructions. A megakernel with fewer than kMinInstructions, norms and
// routes not counted, is not made: it costs more than the separate kernels. (Layers of a 7B model on two tensor-parallel ranks have an exchange after every
// three instructions: a token takes 4.10 ms with megakernels in between, and 3.83 ms without.)
inline constexpr size_t kMinInstructions = 8, kMaxInstructions = 256;
// `declined`, by step: why it is in no megakernel; empty if it is in one.
std::vector<MegakernelPlan> plan_megakernels(const Plan& plan, std::vector<std::string>* declined = nullptr);

}  // namespace genesis
