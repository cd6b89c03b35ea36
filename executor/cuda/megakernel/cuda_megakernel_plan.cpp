#include "executor/cuda/megakernel/cuda_megakernel_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "executor/cuda/independent_inputs.h"
#include "schema/ops/nn/grouped_matmul.h"

namespace genesis {
namespace {

using Kind = cuda::InstructionShape::Kind;

bool overlap(const BufferRef& a, const BufferRef& b) {
  if (a.space != b.space || (a.space != Space::kArena && a.index != b.index)) return false;
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool any_overlap(const std::vector<BufferRef>& buffers, const BufferRef& with) {
  return std::any_of(buffers.begin(), buffers.end(), [&](const BufferRef& b) { return overlap(b, with); });
}

// Returns true if a step from `end` on, an output of the plan or a state reads the result that `step` leaves in `buffer`.
bool is_read_later(const Plan& plan, size_t step, size_t end, const BufferRef& buffer) {
  for (size_t i = step + 1; i < plan.steps.size(); ++i) {
    if (i >= end && any_overlap(plan.steps[i].inputs, buffer)) return true;
    if (any_overlap(plan.steps[i].outputs, buffer)) return false;  // its memory has another use
  }
  for (const PlanPort& port : plan.outputs)
    if (overlap(port.buffer, buffer)) return true;
  for (const StateCopy& copy : plan.state_copies)
    if (overlap(copy.source, buffer)) return true;
  return buffer.space != Space::kArena;
}

// Builds a megakernel instruction by instruction. Tracks what a block knows about the others from the results it has waited for:
// before_write(j) are the instructions that all blocks have finished before any block writes the result of j; complete(j) are
// those that all blocks have finished once the whole result of j is there. A product waits for a whole vector. A head of an
// attention waits only for its own slices, and the result of the attention is complete when all heads are.
class Growing {
 public:
  Growing(const Plan& plan, const std::vector<uint64_t>& independent)
      : plan_(plan), independent_(independent) {}

  // Adds a step as the next instruction. Returns an empty text, or why this is impossible; then nothing has changed.
  std::string add(size_t step) {
    const Step& s = plan_.steps[step];
    PlannedInstruction instruction{.step = step};
    const KernelQuery query{*s.op, s.attributes, s.input_types, s.output_types};
    if (std::string why = cuda::describe_instruction(query, instruction.shape); !why.empty()) return why;
    if (std::string why = find_operands(instruction); !why.empty()) return why;
    const cuda::InstructionShape& shape = instruction.shape;
    Known known = known_by(instruction);
    if (!shape.is_taken() && !may_write(s, shape, known.before_write))
      return "it writes where others of the kernel may still read";
    if (shape.kind == Kind::kAttention && !are_done(Kind::kAttention, known.before_write))
      return "another attention of the kernel may still run";
    if (shape.kind == Kind::kMixture && !mixtures_are_done(instruction))
      return "another mixture of the kernel may still run";
    instructions_.push_back(std::move(instruction));
    known_.push_back(std::move(known));
    return "";
  }

  // Removes norms and routes that no other instruction of the megakernel computes, or whose result something else also reads, and
  // all instructions behind them.
  void cut_at_untaken_steps() {
    for (size_t i = 0; i < instructions_.size(); ++i)
      if (instructions_[i].shape.is_taken() && !is_taken(i)) {
        instructions_.resize(i);
        known_.resize(i);
        i = static_cast<size_t>(-1);  // start again: earlier norms may have lost their attention
      }
  }

  size_t size() const { return instructions_.size(); }

  // Returns the number of steps that the kernel runs as instructions; norms and routes are parts of others.
  size_t written() const {
    return static_cast<size_t>(
        std::ranges::count_if(instructions_, [](const auto& i) { return !i.shape.is_taken(); }));
  }

  MegakernelPlan finish() {
    MegakernelPlan megakernel;
    for (size_t i = 0; i < instructions_.size(); ++i) {
      PlannedInstruction& instruction = instructions_[i];
      const Step& step = plan_.steps[instruction.step];
      for (size_t o = 0; o < instruction.shape.elements.size(); ++o)
        instruction.kept.push_back(
            is_read_later(plan_, instruction.step, instructions_.back().step + 1, step.outputs[o]));
      if (!is_read(i)) continue;
      instruction.slot = free_slot(i);
      megakernel.slot_elements = std::max(megakernel.slot_elements, given(instruction.shape));
    }
    megakernel.slots = static_cast<int>(occupants_.size());
    megakernel.instructions = std::move(instructions_);
    return megakernel;
  }

 private:
  // Returns the elements that the instruction gives, two to a word; one of f32 counts as two.
  static int64_t given(const cuda::InstructionShape& shape) {
    return std::accumulate(shape.elements.begin(), shape.elements.end(), int64_t{0}) * (shape.wide ? 2 : 1);
  }

  // Finds where the instruction reads its operands. Returns an empty text, or which operand a megakernel cannot read.
  std::string find_operands(PlannedInstruction& instruction) const {
    const Step& s = plan_.steps[instruction.step];
    const cuda::InstructionShape& shape = instruction.shape;
    if (!is_independent(s, shape, instruction.step)) return "weights or caches that steps ahead write";
    if (!goes_with_the_others(shape, s)) return "attention of another size or start than the one ahead";
    for (int input : shape.vectors()) {
      const auto source = find(s.inputs[static_cast<size_t>(input)], shape.kind == Kind::kRoute);
      if (!source) return "a part of what a step ahead gives";
      if (source->instruction < 0 && shape.kind != Kind::kProduct && shape.kind != Kind::kMixture)
        return "no product of the kernel ahead";
      instruction.sources.push_back(*source);
    }
    if (!take_norms(instruction)) return "norms that are not its own";
    if (shape.kind == Kind::kMixture && !take_route(instruction)) return "no route of the kernel ahead";
    if (shape.addend < 0) return "";
    const auto source = find(s.inputs[static_cast<size_t>(shape.addend)]);
    if (!source) return "an addend that is a part of what a step ahead gives";
    if (!is_written(*source)) return "an addend that no instruction writes";
    instruction.addend = *source;
    return "";
  }

  // Returns false for the result of a norm, which each of its readers computes for itself, and only as its x.
  bool is_written(const OperandSource& source) const {
    return source.instruction < 0 || !instructions_[static_cast<size_t>(source.instruction)].shape.is_taken();
  }

  // Makes the norms of q and k part of the attention that reads them, and one of x part of a product. Returns false if an
  // instruction reads a norm that it cannot compute.
  bool take_norms(PlannedInstruction& instruction) const {
    for (size_t i = 0; i < instruction.sources.size(); ++i) {
      OperandSource& source = instruction.sources[i];
      if (source.instruction < 0) continue;
      const PlannedInstruction& norm = instructions_[static_cast<size_t>(source.instruction)];
      if (norm.shape.kind != Kind::kNorm) continue;
      if (i > 1 || norm.shape.size != normed_size(instruction.shape)) return false;
      (i == 0 ? instruction.q_norm : instruction.k_norm) = source.instruction;
      source = norm.sources[0];
    }
    return true;
  }

  // Returns the size of the rows whose norm such an instruction computes itself; 0: of none.
  static int64_t normed_size(const cuda::InstructionShape& shape) {
    if (shape.kind == Kind::kAttention) return shape.size;
    const bool has_x = shape.kind == Kind::kMixture || (shape.kind == Kind::kProduct && shape.norm < 0);
    return has_x ? shape.k : 0;
  }

  // Makes the route part of the mixture that reads all of its results.
  bool take_route(PlannedInstruction& mixture) const {
    using Op = ops::Experts;
    const std::vector<BufferRef>& inputs = plan_.steps[mixture.step].inputs;
    for (size_t i = instructions_.size(); i-- > 0;) {
      const cuda::InstructionShape& shape = instructions_[i].shape;
      const std::vector<BufferRef>& made = plan_.steps[instructions_[i].step].outputs;
      if (shape.kind != Kind::kRoute || !(made[1] == inputs[Op::kRows])) continue;
      if (!(made[0] == inputs[Op::kFactors]) || !(made[3] == inputs[Op::kPlaces]) ||
          !(made[4] == inputs[Op::kOffsets]) || shape.rule.k != mixture.shape.chosen ||
          shape.rule.experts != mixture.shape.experts)
        return false;
      mixture.route = static_cast<int>(i);
      mixture.sources.push_back(instructions_[i].sources[0]);
      return true;
    }
    return false;
  }

  // Returns true if every reader of the results of a norm or route is an instruction of the megakernel that computes it itself.
  bool is_taken(size_t which) const {
    const std::vector<BufferRef>& results = plan_.steps[instructions_[which].step].outputs;
    return std::ranges::any_of(results, [&](const BufferRef& r) { return readers_take(which, r) > 0; }) &&
           std::ranges::all_of(results, [&](const BufferRef& r) { return readers_take(which, r) >= 0; });
  }

  // Returns the number of the result's readers, if all of them compute it themselves; else -1.
  int readers_take(size_t which, const BufferRef& buffer) const {
    int taken = 0;
    for (size_t i = instructions_[which].step + 1; i < plan_.steps.size(); ++i) {
      if (any_overlap(plan_.steps[i].inputs, buffer)) {
        const size_t reader = i - instructions_[0].step;
        if (reader >= instructions_.size()) return -1;
        const auto is_it = [&](int taker) { return taker == static_cast<int>(which); };
        const PlannedInstruction& by = instructions_[reader];
        if (!is_it(by.q_norm) && !is_it(by.k_norm) && !is_it(by.route)) return -1;
        ++taken;
      }
      if (any_overlap(plan_.steps[i].outputs, buffer)) return taken;
    }
    return is_read_later(plan_, plan_.steps.size(), plan_.steps.size(), buffer) ? -1 : taken;
  }

  // Returns true if the step may read its weights and caches early. Weights are loaded before the predecessors of the kernel have
  // ended; caches are updated in place.
  bool is_independent(const Step& s, const cuda::InstructionShape& shape, size_t step) const {
    for (int input : shape.independent(s.inputs.size()))
      if (input >= 64 || !(independent_[step] >> input & 1)) return false;
    if (shape.kind != Kind::kAttention) return true;
    // Caches are read before the instruction waits for any word.
    for (const PlannedInstruction& other : instructions_)
      for (const BufferRef& written : plan_.steps[other.step].outputs)
        if (overlap(written, s.inputs[3]) || overlap(written, s.inputs[4])) return false;
    return s.inputs[3] == s.outputs[1] && s.inputs[4] == s.outputs[2];
  }

  static bool same_from(const std::vector<BufferRef>& a, const std::vector<BufferRef>& b, size_t first) {
    return std::equal(a.begin() + static_cast<std::ptrdiff_t>(first), a.end(),
                      b.begin() + static_cast<std::ptrdiff_t>(first), b.end());
  }

  // All attentions of a megakernel rotate heads in the same way: with one start position and the same frequencies.
  bool goes_with_the_others(const cuda::InstructionShape& shape, const Step& s) const {
    for (const PlannedInstruction& other : instructions_) {
      if (other.shape.kind != shape.kind || shape.kind != Kind::kAttention) continue;
      if (other.shape.size != shape.size || other.shape.theta != shape.theta ||
          other.shape.positions != shape.positions || !same_from(plan_.steps[other.step].inputs, s.inputs, 5))
        return false;
    }
    return true;
  }

  // Finds the instruction that produced `buffer`, whose elements are f32 if `wide`. Returns nothing if an instruction writes only a
  // slice of it, or overlapping memory.
  std::optional<OperandSource> find(const BufferRef& buffer, bool wide = false) const {
    for (size_t i = instructions_.size(); i-- > 0;) {
      const Step& step = plan_.steps[instructions_[i].step];
      int64_t element = 0;
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        const bool is_given =
            instructions_[i].shape.wide == wide && o < instructions_[i].shape.elements.size();
        if (is_given && step.outputs[o] == buffer && (!wide || o == 0))
          return OperandSource{static_cast<int>(i), element};
        if (overlap(step.outputs[o], buffer)) return std::nullopt;
        if (is_given) element += instructions_[i].shape.elements[o];
      }
    }
    return OperandSource{};
  }

  struct Known {
    std::vector<bool> before_write, complete;
  };

  Known known_by(const PlannedInstruction& instruction) const {
    Known known{std::vector<bool>(instructions_.size(), false), {}};
    const auto add = [](std::vector<bool>& to, const std::vector<bool>& from) {
      for (size_t i = 0; i < from.size(); ++i) to[i] = to[i] || from[i];
    };
    // A block that has seen a word knows everything that the writer of the word knew.
    for (const OperandSource& source : instruction.sources)
      if (source.instruction >= 0)
        add(known.before_write, known_[static_cast<size_t>(source.instruction)].before_write);
    known.complete = known.before_write;
    for (size_t i = 0; i < instructions_.size(); ++i)
      if (asks_for_all_of(instruction, i)) {
        known.complete[i] = true;
        add(known.complete, known_[i].complete);
      }
    if (instruction.shape.kind != Kind::kAttention) known.before_write = known.complete;
    return known;
  }

  // Returns true if the sources together cover the whole result of instruction i.
  bool asks_for_all_of(const PlannedInstruction& instruction, size_t i) const {
    if (instruction.shape.kind == Kind::kMixture &&
        instruction.sources.back().instruction == static_cast<int>(i))
      return instructions_[i].shape.elements.size() == 1;  // a block waits for the logits alone
    const Step& step = plan_.steps[instruction.step];
    const std::vector<int> inputs = instruction.shape.vectors();
    std::map<int64_t, int64_t> asked;  // number of elements, by first element
    for (size_t s = 0; s < inputs.size(); ++s)
      if (instruction.sources[s].instruction == static_cast<int>(i))
        asked[instruction.sources[s].element] = step.input_types[static_cast<size_t>(inputs[s])].numel();
    int64_t elements = 0;
    for (const auto& [first, count] : asked) elements += count;
    return elements == given(instructions_[i].shape);
  }

  // Attentions share scratch memory of the kernel, and so do mixtures: earlier ones must be done.
  bool are_done(Kind kind, const std::vector<bool>& before) const {
    for (size_t i = 0; i < instructions_.size(); ++i)
      if (instructions_[i].shape.kind == kind && !before[i]) return false;
    return true;
  }

  // A block replaces the choice of the mixture ahead when the logits have arrived.
  bool mixtures_are_done(const PlannedInstruction& mixture) const {
    return are_done(Kind::kMixture,
                    known_[static_cast<size_t>(mixture.sources.back().instruction)].before_write);
  }

  // Returns true if the instructions that read or write memory overwritten by this step are done before it writes.
  bool may_write(const Step& s, const cuda::InstructionShape& shape, const std::vector<bool>& before) const {
    for (size_t i = 0; i < instructions_.size(); ++i) {
      if (before[i] || instructions_[i].shape.is_taken()) continue;  // done, or does not touch memory
      const Step& other = plan_.steps[instructions_[i].step];
      for (const BufferRef& out : s.outputs)
        if (any_overlap(other.inputs, out) || any_overlap(other.outputs, out)) return false;
    }
    // The addend may share memory with the result, since one thread reads and writes each element. Other inputs may not.
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      const bool in_place = shape.kind == Kind::kAttention && (i == 3 || i == 4);
      if (in_place || static_cast<int>(i) == shape.addend) continue;
      if (any_overlap(s.outputs, s.inputs[i])) return false;
    }
    return true;
  }

  // Returns a slot whose previous result has been read by all its readers, or a new slot.
  int free_slot(size_t instruction) {
    const auto is_done = [&](size_t i) { return known_[instruction].before_write[i]; };
    for (size_t slot = 0; slot < occupants_.size(); ++slot) {
      const size_t occupant = occupants_[slot];
      bool free = is_done(occupant);
      for (size_t r = occupant + 1; r < instructions_.size() && free; ++r)
        if (reads(instructions_[r], occupant) && !instructions_[r].shape.is_taken())
          free = r < instruction && is_done(r);
      if (!free) continue;
      occupants_[slot] = instruction;
      return static_cast<int>(slot);
    }
    occupants_.push_back(instruction);
    return static_cast<int>(occupants_.size()) - 1;
  }

  bool is_read(size_t instruction) const {
    return std::any_of(instructions_.begin(), instructions_.end(),
                       [&](const PlannedInstruction& l) { return reads(l, instruction); });
  }

  static bool reads(const PlannedInstruction& instruction, size_t what) {
    const auto is_it = [&](const OperandSource& s) { return s.instruction == static_cast<int>(what); };
    return is_it(instruction.addend) ||
           std::any_of(instruction.sources.begin(), instruction.sources.end(), is_it);
  }

  const Plan& plan_;
  const std::vector<uint64_t>& independent_;
  std::vector<PlannedInstruction> instructions_;
  std::vector<Known> known_;
  std::vector<size_t> occupants_;  // by slot
};

}  // namespace

std::vector<MegakernelPlan> plan_megakernels(const Plan& plan, std::vector<std::string>* declined) {
  const std::vector<uint64_t> independent = independent_inputs(plan);
  std::vector<MegakernelPlan> megakernels;
  if (declined) declined->assign(plan.steps.size(), "");
  for (size_t step = 0; step < plan.steps.size();) {
    Growing megakernel(plan, independent);
    std::string why = "a norm or a route whose readers are not behind it";
    while (megakernel.size() < kMaxInstructions && step + megakernel.size() < plan.steps.size()) {
      std::string reason = megakernel.add(step + megakernel.size());
      if (reason.empty()) continue;
      if (megakernel.size() == 0) why = std::move(reason);
      break;
    }
    megakernel.cut_at_untaken_steps();
    const size_t end = step + std::max<size_t>(megakernel.size(), 1), instructions = megakernel.written();
    if (instructions >= kMinInstructions)
      megakernels.push_back(megakernel.finish());
    else if (instructions > 0)
      why = fmt::format("{} of its steps in a row: less than {} cost more than their kernels", instructions,
                        kMinInstructions);
    for (; step < end; ++step)
      if (declined && instructions < kMinInstructions) (*declined)[step] = why;
  }
  return megakernels;
}

}  // namespace genesis
