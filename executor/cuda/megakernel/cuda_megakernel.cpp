#include "executor/cuda/megakernel/cuda_megakernel.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "backends/cuda/runtime/runtime.h"
#include "schema/core/error.h"
#include "schema/ops/nn/grouped_matmul.h"

namespace genesis {
namespace {

using cuda::Instruction;
using cuda::InstructionShape;
using cuda::TaggedWord;

bool is_aligned(const void* at, uintptr_t to) { return reinterpret_cast<uintptr_t>(at) % to == 0; }

// Returns the number of words per slot, rounded up so that every slot begins at a cache line.
int64_t slot_words(const MegakernelPlan& megakernel) { return (megakernel.slot_elements / 2 + 15) / 16 * 16; }

uint32_t tag_of(int instruction) { return static_cast<uint32_t>(instruction) + 1; }

// Returns the length of the result of a mixture's first product.
int64_t between_size(const InstructionShape& mixture) { return mixture.chosen * mixture.n[0]; }

}  // namespace

CudaMegakernel::CudaMegakernel(MegakernelPlan megakernel, int device)
    : JoinedSteps(kMegakernelName, {megakernel.first(), megakernel.end()}),
      plan_(std::move(megakernel)),
      blocks_(cuda::current_chip().multiprocessors) {
  static_assert(kMaxInstructions < cuda::kTagsOfInstructions &&
                InstructionShape::kMaxLayers == Instruction::kMaxLayers);
  words_ = cuda::allocate(device, plan_.slots * slot_words(plan_) * int64_t{sizeof(TaggedWord)});
  instructions_ = cuda::allocate(device, std::ssize(plan_.instructions) * int64_t{sizeof(Instruction)});
  run_ = cuda::allocate(device, 2 * sizeof(uint32_t));
  program_.instructions = reinterpret_cast<const Instruction*>(instructions_.get());
  program_.run = reinterpret_cast<uint32_t*>(run_.get());
  counter_ = cuda::allocate_pinned(sizeof(cuda::ProgramCounter));
  program_.counter = reinterpret_cast<cuda::ProgramCounter*>(counter_.get());
  int64_t split_words = 0, between = 0;
  for (const PlannedInstruction& instruction : plan_.instructions) {
    const InstructionShape& shape = instruction.shape;
    if (!shape.is_taken()) plan_steps_.push_back(instruction.step);
    const auto make_room = [&](WeightFormat format, int64_t k, bool is_scaled) {
      const auto bytes = static_cast<int32_t>(cuda::vector_bytes(format, k, is_scaled));
      program_.vector_bytes = std::max(program_.vector_bytes, bytes);
    };
    if (shape.kind == InstructionShape::Kind::kProduct || shape.kind == InstructionShape::Kind::kMixture)
      make_room(shape.format, shape.k, shape.norm >= 0 || instruction.q_norm >= 0);
    if (shape.kind == InstructionShape::Kind::kMixture) {
      plan_steps_.push_back(instruction.step);  // its second product
      make_room(shape.down_format, between_size(shape), true);
      between = std::max(between, between_size(shape));
    } else if (shape.kind == InstructionShape::Kind::kAttention) {
      program_.size = shape.size;
      program_.positions = static_cast<int32_t>(shape.positions);
      program_.theta = shape.theta;
      split_words = std::max(split_words, cuda::split_words(shape.heads, shape.size, blocks_));
    }
  }
  if (split_words > 0) split_words_ = cuda::allocate(device, split_words * int64_t{sizeof(TaggedWord)});
  if (between > 0) between_ = cuda::allocate(device, between / 2 * int64_t{sizeof(TaggedWord)});
}

cuda::VectorOperand CudaMegakernel::vector(const OperandSource& source, const void* memory) const {
  if (source.instruction < 0) return {.memory = memory};
  const PlannedInstruction& instruction = plan_.instructions[static_cast<size_t>(source.instruction)];
  const auto* words = reinterpret_cast<const TaggedWord*>(words_.get());
  return {.words = words + instruction.slot * slot_words(plan_) + source.element / 2,
          .tag = tag_of(source.instruction)};
}

void CudaMegakernel::take_norm(int norm, std::span<const StepCall> calls, const void*& weight,
                               float& eps) const {
  if (norm < 0) return;
  const PlannedInstruction& taken = plan_.instructions[static_cast<size_t>(norm)];
  weight = calls[taken.step].inputs[1].data;
  eps = taken.shape.eps;
}

void CudaMegakernel::describe_product(const PlannedInstruction& instruction, std::span<const StepCall> calls,
                                      Instruction& step) const {
  const InstructionShape& shape = instruction.shape;
  const StepCall& call = calls[instruction.step];
  const auto input = [&](int i) { return i < 0 ? nullptr : call.inputs[static_cast<size_t>(i)].data; };
  step.kind = Instruction::kProduct;
  step.k = static_cast<int32_t>(shape.k);
  step.swiglu = shape.swiglu;
  step.wide = shape.wide;
  step.format = shape.format;
  step.layers = static_cast<int32_t>(shape.n.size());
  step.eps = shape.eps;
  step.norm = input(shape.norm);
  take_norm(instruction.q_norm, calls, step.norm, step.eps);
  step.x = vector(instruction.sources[0], input(0));
  if (shape.addend >= 0) step.addend = vector(instruction.addend, input(shape.addend));
  int32_t first = 0;
  for (int i = 0; i < step.layers; ++i) {
    cuda::LayerOperand& layer = step.layer[i];
    layer.weight = input(shape.weight + i);
    layer.scales = shape.scales < 0 ? nullptr : input(shape.scales + i);
    layer.bias = shape.bias < 0 ? nullptr : input(shape.bias + i);
    const auto output = static_cast<size_t>(i);
    layer.first = first;
    layer.n = static_cast<int32_t>(shape.n[output]);
    if (output < instruction.kept.size() && instruction.kept[output]) layer.y = call.outputs[output].data;
    if (!shape.swiglu) first += layer.n;
  }
  step.n = shape.swiglu ? step.layer[0].n : first;
  cuda::plan_product(step, blocks_, between_ != nullptr);
}

void CudaMegakernel::describe_mixture(const PlannedInstruction& instruction, std::span<const StepCall> calls,
                                      Instruction& gate_up, Instruction& down) const {
  using Op = ops::Experts;
  const InstructionShape& shape = instruction.shape;
  const StepCall& call = calls[instruction.step];
  const auto input = [&](int i) { return i < 0 ? nullptr : call.inputs[static_cast<size_t>(i)].data; };
  const auto scales = [&](int i) { return shape.scales < 0 ? nullptr : input(shape.scales + i); };
  auto* between = reinterpret_cast<TaggedWord*>(between_.get());
  const auto n = static_cast<int32_t>(shape.n[0]), hidden = static_cast<int32_t>(shape.elements[0]);

  const PlannedInstruction& route = plan_.instructions[static_cast<size_t>(instruction.route)];
  gate_up.tag = down.tag + cuda::kTagsOfInstructions;
  gate_up.out = between;
  gate_up.k = static_cast<int32_t>(shape.k);
  gate_up.n = shape.chosen * n;
  gate_up.swiglu = 1, gate_up.layers = 2;
  gate_up.format = shape.format;
  gate_up.x = vector(instruction.sources[0], input(Op::kX));
  take_norm(instruction.q_norm, calls, gate_up.norm, gate_up.eps);
  gate_up.layer[0] = {.weight = input(Op::kGate), .scales = scales(0), .n = gate_up.n};
  gate_up.layer[1] = {.weight = input(Op::kUp), .scales = scales(1), .n = gate_up.n};
  gate_up.chosen = shape.chosen, gate_up.expert_rows = n;
  gate_up.logits = vector(instruction.sources.back(), nullptr);
  gate_up.rule = route.shape.rule;
  if (route.shape.bias >= 0) gate_up.rule.bias = calls[route.step].inputs[1].as<const float>();
  cuda::plan_product(gate_up, blocks_, true);

  down.k = gate_up.n, down.n = hidden;
  down.layers = 1;
  down.format = shape.down_format;
  down.x = {.words = between, .tag = gate_up.tag};
  if (shape.addend >= 0) down.addend = vector(instruction.addend, input(shape.addend));
  down.layer[0] = {.weight = input(Op::kDown), .scales = input(shape.down_scales), .n = hidden};
  if (instruction.kept[0]) down.layer[0].y = call.outputs[0].data;
  down.chosen = shape.chosen, down.expert_rows = hidden, down.weighs = 1;
  cuda::plan_product(down, blocks_, true);
}

void CudaMegakernel::describe_attention(const PlannedInstruction& instruction,
                                        std::span<const StepCall> calls, Instruction& step) {
  const InstructionShape& shape = instruction.shape;
  const StepCall& call = calls[instruction.step];
  take_norm(instruction.q_norm, calls, step.q_norm, step.q_eps);
  take_norm(instruction.k_norm, calls, step.k_norm, step.k_eps);
  step.kind = Instruction::kAttention;
  step.heads = shape.heads;
  step.key_heads = shape.key_heads;
  step.splits = cuda::attention_splits(shape.heads, blocks_);
  step.window = static_cast<int32_t>(shape.window);
  step.scale = shape.scale;
  step.q = vector(instruction.sources[0], nullptr);
  step.k_new = vector(instruction.sources[1], nullptr);
  step.v_new = vector(instruction.sources[2], nullptr);
  step.k_cache = call.outputs[1].data;
  step.v_cache = call.outputs[2].data;
  if (instruction.kept[0]) step.y = call.outputs[0].data;
  step.split_words = reinterpret_cast<TaggedWord*>(split_words_.get());
  program_.start = call.inputs[5].as<const int64_t>();
  if (call.inputs.size() > 6) program_.frequencies = call.inputs[6].as<const double>();
}

// Appends the instructions of a step: a mixture has two.
void CudaMegakernel::describe(const PlannedInstruction& instruction, std::span<const StepCall> calls,
                              std::vector<Instruction>& steps) {
  const auto index = static_cast<int>(&instruction - plan_.instructions.data());
  Instruction step;
  step.tag = tag_of(index);
  step.shift = static_cast<int32_t>(int64_t{index} * 37 % blocks_);
  if (instruction.slot >= 0)
    step.out = reinterpret_cast<TaggedWord*>(words_.get()) + instruction.slot * slot_words(plan_);
  if (instruction.shape.kind == InstructionShape::Kind::kMixture) {
    Instruction first;
    first.shift = (step.shift + blocks_ / 2) % blocks_;
    describe_mixture(instruction, calls, first, step);
    steps.push_back(first);
  } else if (instruction.shape.kind == InstructionShape::Kind::kProduct) {
    describe_product(instruction, calls, step);
  } else {
    describe_attention(instruction, calls, step);
  }
  steps.push_back(step);
}

bool CudaMegakernel::load(std::span<const StepCall> calls, const cuda::Launch& launch) {
  std::vector<Instruction> steps;
  for (const PlannedInstruction& instruction : plan_.instructions) {
    const StepCall& call = calls[instruction.step];
    for (const TensorView& view : call.inputs)
      if (view.numel() > 1 && !is_aligned(view.data, 16)) return false;
    for (const TensorView& view : call.outputs)
      if (!is_aligned(view.data, 16)) return false;
    if (!instruction.shape.is_taken()) describe(instruction, calls, steps);
  }
  program_.count = static_cast<int32_t>(steps.size());
  for (const Instruction& step : steps)
    if (!cuda::ring_takes(program_, step, blocks_, cuda::shared_bytes_limit())) return false;
  cuda::check(cudaMemcpyAsync(instructions_.get(), steps.data(), steps.size() * sizeof(Instruction),
                              cudaMemcpyHostToDevice, launch.stream),
              "loading a megakernel");
  return true;
}

void CudaMegakernel::start(const cuda::Launch& launch) const {
  cuda::MegakernelProgram program = program_;
  program.fault = launch.fault;
  for (const PlannedInstruction& instruction : plan_.instructions)
    if (instruction.shape.kind == InstructionShape::Kind::kAttention) {
      program.fault.step += static_cast<int32_t>(instruction.step - steps().first);
      break;
    }
  cuda::start_megakernel(launch, program);
}

void CudaMegakernel::begin_run() {
  program_.counter->computed = 0;
  program_.counter->fed = 0;
}

std::vector<size_t> CudaMegakernel::under_way() const {
  std::set<size_t> steps;
  for (const int32_t instruction : {program_.counter->computed, program_.counter->fed})
    steps.insert(plan_steps_[static_cast<size_t>(std::max(instruction, 1) - 1)]);
  return {steps.begin(), steps.end()};
}

namespace {

JoinableSteps find_megakernels(const Plan& plan) {
  JoinableSteps found;
  for (const MegakernelPlan& megakernel : plan_megakernels(plan, &found.declined))
    found.ranges.push_back({megakernel.first(), megakernel.end()});
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (!cuda::is_of_a_megakernel(*plan.steps[i].op)) found.declined[i].clear();
  return found;
}

std::vector<std::unique_ptr<JoinedSteps>> make_megakernels(const Plan& plan, int device) {
  std::vector<std::unique_ptr<JoinedSteps>> megakernels;
  if (!cuda::can_start_megakernels()) return megakernels;
  for (MegakernelPlan& megakernel : plan_megakernels(plan)) {
    const auto fits = [&](const PlannedInstruction& instruction) {
      return instruction.shape.kind != InstructionShape::Kind::kAttention ||
             instruction.shape.heads <= cuda::current_chip().multiprocessors;
    };
    if (std::all_of(megakernel.instructions.begin(), megakernel.instructions.end(), fits))
      megakernels.push_back(std::make_unique<CudaMegakernel>(std::move(megakernel), device));
  }
  return megakernels;
}

}  // namespace

JoiningImplementation megakernel_implementation() {
  return {.name = kMegakernelName,
          .decided_later = "if shared memory is too small for the weights, its steps run one by one",
          .find = find_megakernels,
          .make = make_megakernels};
}

}  // namespace genesis
