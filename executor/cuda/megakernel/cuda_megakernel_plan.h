// Finds in a plan the runs of consecutive steps, each over one row, that one megakernel can execute, and plans its
// program: in which slot an instruction's result lies, which instructions read it, and what must go to memory because
// a step outside reads it. Needs no device. Executed by cuda_megakernel.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/decode/instruction_shape.h"
#include "schema/graph/plan.h"

namespace genesis {

inline constexpr std::string_view kMegakernelName = "megakernel";  // as --disable and reports have it

// Where an instruction finds a vector.
struct OperandSource {
  int instruction = -1;  // of the megakernel; -1: in memory, where the step says
  int64_t element = 0;   // of all that the instruction gives, output after output
};

struct PlannedInstruction {
  size_t step = 0;  // of the plan
  cuda::InstructionShape shape;
  std::vector<OperandSource> sources;  // as shape.vectors(); of an attention, what its norms read
  int q_norm = -1, k_norm = -1;        // of an attention: instructions that it does itself
  OperandSource addend;
  std::vector<bool> kept;  // by shape.elements: the output goes to memory too
  int slot = -1;           // where the instruction leaves what it gives to others; -1: to memory alone
};

struct MegakernelPlan {
  std::vector<PlannedInstruction> instructions;  // of consecutive steps
  int slots = 0;
  int64_t slot_elements = 0;  // of the largest

  size_t first() const { return instructions.front().step; }
  size_t end() const { return instructions.back().step + 1; }
};

// Every instruction of a megakernel that overwrites a slot, or memory that other instructions read, depends on all that those
// instructions have read: a block of the kernel that comes to it knows that all blocks are done with them. A megakernel
// ends before a step for which that does not hold, and after kMaxInstructions. None has less than kMinInstructions: a
// short one costs more than its kernels do one by one. (Layers of a 7B model that two ranks share have an exchange behind
// every three instructions: a token takes 4.10 ms with megakernels between them, and 3.83 without.)
inline constexpr size_t kMinInstructions = 8, kMaxInstructions = 256;
// `declined`: by step, why it is in none; empty where it is in one.
std::vector<MegakernelPlan> plan_megakernels(const Plan& plan, std::vector<std::string>* declined = nullptr);

}  // namespace genesis
