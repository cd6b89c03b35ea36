// Tests which steps of a plan a megakernel runs together, and that no instruction overwrites data that another may
// still read. Needs no GPU.
#include "executor/cuda/megakernel/cuda_megakernel_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/decode/megakernel.h"
#include "backends/cuda/kernels.h"
#include "executor/compile.h"
#include "executor/runtime/device.h"
#include "executor/runtime/step_call.h"
#include "executor/session.h"
#include "models/generation/sampling_entries.h"
#include "models/zoo.h"
#include "passes/precision/cast_precision.h"
#include "passes/precision/quantize.h"
#include "schema/graph/text.h"

namespace genesis {
namespace {

using Kind = cuda::InstructionShape::Kind;

std::unique_ptr<Model> model_of(const std::string& name, const std::string& layers,
                                const std::string& head_size, const models::Settings& more) {
  models::Settings settings = more;
  settings.insert({{"hidden_size", "128"},
                   {"intermediate_size", "256"},
                   {"num_hidden_layers", layers},
                   {"num_attention_heads", "2"},
                   {"num_key_value_heads", "1"},
                   {"head_dim", head_size},
                   {"vocab_size", "256"}});
  return models::make_model(name, settings);
}

std::unique_ptr<Model> language_model(const std::string& name, const std::string& layers,
                                      const std::string& head_size = "64",
                                      const models::Settings& more = {}) {
  return passes::cast_precision(*model_of(name, layers, head_size, more), DType::bf16);
}

// Returns a set of one pass; an empty name gives an empty set.
std::set<std::string> only(const std::string& pass) {
  return pass.empty() ? std::set<std::string>{} : std::set<std::string>{pass};
}

struct Found {
  CompiledEntry compiled;
  std::vector<MegakernelPlan> megakernels;
};

Found megakernels_of(const Model& model, const std::string& entry, const Bindings& bindings = {},
                     const std::set<std::string>& disabled = {}) {
  Found found{compile_entry(model, entry, bindings, target_of("cuda"), {.disabled = disabled}), {}};
  found.megakernels = plan_megakernels(found.compiled.plan);
  return found;
}

TEST(Megakernels, DecodingIsOneMegakernelOfAllLayersAndTheHead) {
  const auto model = language_model("qwen2", "4");
  const Found found = megakernels_of(*model, "decode");
  ASSERT_EQ(found.megakernels.size(), 1u);
  const MegakernelPlan& megakernel = found.megakernels[0];
  ASSERT_EQ(megakernel.instructions.size(), 4 * 5 + 1u);
  for (size_t i = 0; i < megakernel.instructions.size(); ++i) {
    EXPECT_EQ(megakernel.instructions[i].step, megakernel.first() + i);
    EXPECT_EQ(megakernel.instructions[i].shape.kind == Kind::kAttention, i % 5 == 1);
  }
  // Only the logits leave the megakernel, and only the embedding comes from memory.
  for (size_t i = 0; i < megakernel.instructions.size(); ++i)
    for (bool kept : megakernel.instructions[i].kept)
      EXPECT_EQ(kept, i + 1 == megakernel.instructions.size()) << i;
  EXPECT_EQ(megakernel.instructions[0].sources[0].instruction, -1);
  EXPECT_EQ(megakernel.instructions[2].addend.instruction, -1);
  for (size_t i = 1; i < megakernel.instructions.size(); ++i)
    EXPECT_EQ(megakernel.instructions[i].sources[0].instruction, static_cast<int>(i) - 1);
  EXPECT_EQ(megakernel.instructions[4].addend.instruction, 2);
  // One instruction computes q, k and v side by side.
  EXPECT_EQ(megakernel.instructions[1].sources[1].element, 128);
  EXPECT_EQ(megakernel.instructions[1].sources[2].element, 192);
  EXPECT_LE(megakernel.slots, 4);
}

// Tests the report of `info --kernels` about a step.
TEST(Megakernels, ChoicesSayWhichStepsAreInOneAndWhyOthersAreNot) {
  const auto model = language_model("qwen2", "4");
  const Target target = target_of("cuda");
  const auto choices = [&](const Model& from, const std::string& entry, const Bindings& sizes,
                           bool megakernel) {
    const CompiledEntry made = compile_entry(from, entry, sizes, target, {});
    RunnerOptions options = made.runner;
    if (!megakernel) options.disabled_kernels.insert("megakernel");
    return choices_of(made.plan, target, options);
  };
  const auto count = [](const std::vector<KernelChoice>& all, const std::string& implementation,
                        const std::string& reason) {
    return std::ranges::count_if(all, [&](const KernelChoice& choice) {
      if (reason.empty()) return choice.name == implementation;
      return std::ranges::find(choice.declined, KernelChoice::Declined{implementation, reason}) !=
             choice.declined.end();
    });
  };
  EXPECT_EQ(count(choices(*model, "decode", {}, true), "megakernel", ""), 4 * 5 + 1);
  const auto without = choices(*model, "decode", {}, false);
  EXPECT_EQ(count(without, "megakernel", ""), 0);
  EXPECT_EQ(count(without, "megakernel", "switched off"), 4 * 5 + 1);
  EXPECT_GT(count(choices(*model, "prefill", {{"seq", 7}}, true), "megakernel", "x is not one row"), 4);
  const auto wide = models::make_model("qwen2", {{"num_hidden_layers", "4"}});
  EXPECT_GT(count(choices(*wide, "decode", {}, true), "megakernel", "x is not bf16"), 4);
  EXPECT_GT(count(choices(*language_model("qwen2", "1"), "decode", {}, true), "megakernel",
                  "6 of its steps in a row: less than 8 cost more than their kernels"),
            4);
}

// A layer of qwen3 and the head are eight steps, but six instructions.
TEST(Megakernels, NormsThatOthersComputeDoNotCount) {
  EXPECT_TRUE(megakernels_of(*language_model("qwen3", "1"), "decode").megakernels.empty());
}

// Sampling adds two steps behind the megakernel. The token and its position come from states.
TEST(Megakernels, SamplingLeavesThemWhole) {
  for (const char* name : {"qwen2", "qwen3"}) {
    const std::shared_ptr<const Model> model = text::with_sampling_entries(language_model(name, "4"));
    const Found alone = megakernels_of(*model, "decode");
    for (const bool penalties : {false, true})
      for (const bool logprobs : {false, true}) {
        const std::string entry = text::decode_name({penalties, logprobs});
        SCOPED_TRACE(std::string(name) + " " + entry);
        const Found found = megakernels_of(*model, entry);
        ASSERT_EQ(found.megakernels.size(), 1u);
        EXPECT_EQ(found.megakernels[0].instructions.size(), alone.megakernels[0].instructions.size());
        EXPECT_EQ(found.megakernels[0].first(), 1u) << "the embedding alone is ahead";
        EXPECT_TRUE(found.compiled.plan.inputs.empty());
        EXPECT_TRUE(found.compiled.plan.state_copies.empty())
            << "the token, its position and the counts are written in place";
        if (!penalties && !logprobs) {
          EXPECT_EQ(found.compiled.plan.steps.size(), found.megakernels[0].end() + 2);
        }
      }
  }
}

// A scaled rotation is a table in memory, and a window is a number of the instruction.
TEST(Megakernels, ScaledRotationsAndWindowsLeaveThemWhole) {
  const models::Settings scaled = {{"rope_scaling", "yarn"},
                                   {"rope_factor", "4"},
                                   {"rope_original_positions", "256"}},
                         sliding = {{"sliding_window", "100"}, {"max_position_embeddings", "300"}};
  for (const models::Settings& more : {scaled, sliding}) {
    const Found found = megakernels_of(*language_model("qwen2", "4", "64", more), "decode");
    ASSERT_EQ(found.megakernels.size(), 1u);
    EXPECT_EQ(found.megakernels[0].instructions.size(), 4 * 5 + 1u);
  }
}

// Rows with positions of their own are not a single row.
TEST(Megakernels, RowsOfACacheAreNone) {
  const auto rows = models::with_cache(*language_model("qwen2", "4"), 2, 64);
  EXPECT_TRUE(megakernels_of(*rows, "decode").megakernels.empty());
}

TEST(Megakernels, AnAttentionTakesTheNormsOfItsHeads) {
  const auto model = language_model("qwen3", "3");
  const Found found = megakernels_of(*model, "decode");
  ASSERT_EQ(found.megakernels.size(), 1u);
  const MegakernelPlan& megakernel = found.megakernels[0];
  ASSERT_EQ(megakernel.instructions.size(), 3 * 7 + 1u);
  for (size_t i = 0; i + 1 < megakernel.instructions.size(); ++i) {
    const PlannedInstruction& instruction = megakernel.instructions[i];
    EXPECT_EQ(instruction.shape.kind == Kind::kNorm, i % 7 == 1 || i % 7 == 2) << i;
    EXPECT_EQ(instruction.slot < 0, instruction.shape.kind == Kind::kNorm) << i;
    if (instruction.shape.kind != Kind::kAttention) continue;
    // It reads the inputs of both norms, whichever of them comes first.
    EXPECT_EQ(instruction.q_norm + instruction.k_norm, static_cast<int>(2 * i) - 3);
    for (const OperandSource& source : instruction.sources)
      EXPECT_EQ(source.instruction, static_cast<int>(i) - 3);
  }
  EXPECT_LE(megakernel.slots, 5);
}

std::unique_ptr<Model> mixture_model(const std::string& layers, const std::string& chosen = "4") {
  return model_of("qwen3_moe", layers, "64",
                  {{"moe_intermediate_size", "256"},
                   {"num_experts", "16"},
                   {"num_experts_per_tok", chosen},
                   {"dtype", "bf16"}});
}

TEST(Megakernels, AMixtureTakesItsNormAndItsRoute) {
  for (const WeightFormat format : {WeightFormat::kPlain, WeightFormat::kQ8, WeightFormat::kQ4}) {
    const auto model = mixture_model("3");
    if (format != WeightFormat::kPlain)
      passes::quantize(*model, {.format = format, .embedding = false, .head = true});
    const Found found = megakernels_of(*model, "decode");
    ASSERT_EQ(found.megakernels.size(), 1u);
    const MegakernelPlan& megakernel = found.megakernels[0];
    ASSERT_EQ(megakernel.instructions.size(), 3 * 9 + 1u);
    for (size_t i = 0; i + 1 < megakernel.instructions.size(); ++i) {
      const PlannedInstruction& instruction = megakernel.instructions[i];
      const bool is_router = i % 9 == 6, is_mixture = i % 9 == 8;
      EXPECT_EQ(instruction.shape.wide, is_router) << i;
      EXPECT_EQ(instruction.shape.kind == Kind::kMixture, is_mixture) << i;
      EXPECT_EQ(std::ranges::count(instruction.kept, true), 0) << i;
      if (is_router || is_mixture) {
        EXPECT_EQ(instruction.q_norm, static_cast<int>(i / 9 * 9 + 5)) << i;
        EXPECT_EQ(instruction.sources[0].instruction, static_cast<int>(i / 9 * 9 + 4)) << i;
      }
      if (!is_mixture) continue;
      EXPECT_EQ(instruction.shape.format, format);
      EXPECT_EQ(instruction.route, static_cast<int>(i) - 1);
      EXPECT_EQ(instruction.sources.back().instruction, static_cast<int>(i) - 2);
      EXPECT_EQ(instruction.addend.instruction, static_cast<int>(i) - 4);
    }
    EXPECT_LE(megakernel.slots, 6);
  }
}

// Qwen3-235B-A22B has 4096 features, GLM-4.5 5120, DeepSeek-V3 7168.
TEST(Megakernels, WideMixturesAreInstructions) {
  for (const char* hidden : {"4096", "5120", "7168"}) {
    const auto model = model_of("qwen3_moe", "2", "64",
                                {{"hidden_size", hidden},
                                 {"moe_intermediate_size", "32"},
                                 {"num_experts", "8"},
                                 {"num_experts_per_tok", "8"},
                                 {"dtype", "bf16"}});
    const Found found = megakernels_of(*model, "decode");
    ASSERT_EQ(found.megakernels.size(), 1u) << hidden;
    EXPECT_EQ(std::ranges::count(found.megakernels[0].instructions, Kind::kMixture,
                                 [](const PlannedInstruction& each) { return each.shape.kind; }),
              2)
        << hidden;
  }
}

// Returns the reasons for which steps of decoding are in no megakernel.
std::vector<std::string> reasons_of(const Model& model) {
  const CompiledEntry compiled = compile_entry(model, "decode", {}, target_of("cuda"), {});
  std::vector<std::string> declined;
  plan_megakernels(compiled.plan, &declined);
  return declined;
}

// Groups of experts, biases and clamped activations are for kernels of their own.
TEST(Megakernels, GroupsOfExpertsBiasesAndClampedActivationsAreNone) {
  const auto model = model_of("glm4_moe", "3", "64",
                              {{"moe_intermediate_size", "64"},
                               {"num_experts", "16"},
                               {"num_experts_per_tok", "4"},
                               {"first_k_dense_replace", "0"},
                               {"n_group", "4"},
                               {"topk_group", "2"},
                               {"dtype", "bf16"}});
  EXPECT_EQ(std::ranges::count(reasons_of(*model), "groups of experts"), 3);
  const auto clamped = model_of("gpt_oss", "2", "64",
                                {{"moe_intermediate_size", "64"},
                                 {"num_experts", "16"},
                                 {"num_experts_per_tok", "4"},
                                 {"dtype", "bf16"}});
  EXPECT_EQ(std::ranges::count(reasons_of(*clamped), "experts with biases or another activation than swiglu"),
            2);
}

// Returns whether the ring has space for products of these sizes, of a mixture of 8 experts of a token, in a program of 170
// instructions on an H200.
bool ring_takes(int k, int n, int rows_of_down = 0) {
  constexpr int kBlocks = 132, kShared = 227 << 10, kChosen = 8;
  cuda::Instruction step;
  step.k = k, step.n = n;
  if (rows_of_down > 0) step.chosen = kChosen, step.weighs = 1, step.expert_rows = n, step.k = kChosen * k;
  cuda::plan_product(step, kBlocks, true);
  cuda::MegakernelProgram program;
  program.count = 170;
  program.vector_bytes = static_cast<int32_t>(
      cuda::vector_bytes(WeightFormat::kPlain, rows_of_down > 0 ? step.k : kChosen * 1536, true));
  return cuda::ring_takes(program, step, kBlocks, kShared);
}

// A block has one or two pairs of a router's rows, however long they are, but eight pairs of the others'.
TEST(Megakernels, TheRingTakesTheRowsThatABlockHas) {
  for (const int experts : {128, 160, 256}) EXPECT_TRUE(ring_takes(4096, experts)) << experts;
  EXPECT_TRUE(ring_takes(3072, 256));
  EXPECT_TRUE(ring_takes(4096, 9216)) << "q, k and v";
  EXPECT_TRUE(ring_takes(1536, 4096, 1)) << "down of Qwen3-235B";
  EXPECT_FALSE(ring_takes(4096, 4096, 1));
}

// A mixture that no ring takes is declined by its sizes, so that it does not cost the steps beside it their megakernel.
TEST(Megakernels, RowsOfDownThatNoRingTakesAreNone) {
  const auto model = model_of("qwen3_moe", "1", "64",
                              {{"moe_intermediate_size", "6144"},
                               {"num_experts", "8"},
                               {"num_experts_per_tok", "8"},
                               {"dtype", "bf16"}});
  EXPECT_EQ(std::ranges::count(reasons_of(*model),
                               "experts of 6144 elements: shared memory is too small for rows of down"),
            1);
}

// Three and sixteen experts of a token are no ranges of the second product.
TEST(Megakernels, MixturesOfOtherSizesAreNone) {
  for (const char* chosen : {"3", "16"}) {
    const auto model = mixture_model("3", chosen);
    for (const MegakernelPlan& megakernel : megakernels_of(*model, "decode").megakernels)
      for (const PlannedInstruction& instruction : megakernel.instructions)
        EXPECT_NE(instruction.shape.kind, Kind::kMixture) << chosen;
  }
}

// A norm of heads that belongs to no attention must be a step, or nothing would compute it.
TEST(Megakernels, EveryNormOfHeadsIsAnAttentionsOrAStep) {
  for (const char* head_size : {"16", "32", "64", "96", "128", "256"})
    for (const char* disabled : {"", "in_place", "memory_reuse", "fuse_cached_attention"}) {
      SCOPED_TRACE(std::string(head_size) + " without " + disabled);
      const auto model = language_model("qwen3", "3", head_size);
      const Found found = megakernels_of(*model, "decode", {}, only(disabled));
      for (const MegakernelPlan& megakernel : found.megakernels)
        for (size_t i = 0; i < megakernel.instructions.size(); ++i) {
          if (megakernel.instructions[i].shape.kind != Kind::kNorm) continue;
          const auto takes = [&](const PlannedInstruction& instruction) {
            return instruction.q_norm == static_cast<int>(i) || instruction.k_norm == static_cast<int>(i);
          };
          EXPECT_EQ(std::count_if(megakernel.instructions.begin(), megakernel.instructions.end(), takes), 1)
              << "instruction " << i;
          EXPECT_EQ(megakernel.instructions[i].kept, std::vector<bool>{false});
        }
    }
}

// Computes independently which results are complete when a block writes the result of an instruction: a product has
// waited for all of x, a head of an attention for slices of three vectors, and a mixture also for the first result of its router.
std::vector<std::vector<bool>> done_before_writing(const MegakernelPlan& megakernel) {
  const size_t count = megakernel.instructions.size();
  std::vector<std::vector<bool>> written(count, std::vector<bool>(count, false)), complete = written;
  for (size_t i = 0; i < count; ++i) {
    const PlannedInstruction& instruction = megakernel.instructions[i];
    for (const OperandSource& source : instruction.sources) {
      if (source.instruction < 0) continue;
      const auto from = static_cast<size_t>(source.instruction);
      const cuda::InstructionShape& shape = megakernel.instructions[from].shape;
      const bool is_whole = !shape.wide || shape.elements.size() == 1;
      for (size_t j = 0; j < count; ++j) {
        if (written[from][j]) written[i][j] = complete[i][j] = true;
        if (is_whole && (j == from || complete[from][j])) complete[i][j] = true;
      }
    }
    if (instruction.shape.kind != Kind::kAttention) written[i] = complete[i];
  }
  return written;
}

// Checks that a slot is written again only after all its readers are done.
void expect_slots_are_safe(const MegakernelPlan& megakernel) {
  const size_t count = megakernel.instructions.size();
  const std::vector<std::vector<bool>> before = done_before_writing(megakernel);
  for (size_t reader = 0; reader < count; ++reader) {
    if (megakernel.instructions[reader].shape.is_taken()) continue;
    std::vector<OperandSource> all = megakernel.instructions[reader].sources;
    all.push_back(megakernel.instructions[reader].addend);
    for (const OperandSource& source : all) {
      if (source.instruction < 0) continue;
      EXPECT_FALSE(megakernel.instructions[static_cast<size_t>(source.instruction)].shape.is_taken())
          << "instruction " << reader << " waits for ever for what none writes";
    }
    for (const OperandSource& source : all)
      for (size_t writer = 0; source.instruction >= 0 && writer < count; ++writer) {
        const auto read = static_cast<size_t>(source.instruction);
        if (writer == read || megakernel.instructions[writer].slot < 0) continue;
        if (megakernel.instructions[writer].slot != megakernel.instructions[read].slot) continue;
        EXPECT_TRUE(writer < read || before[writer][reader])
            << "instruction " << writer << " writes over what " << reader << " reads";
        EXPECT_TRUE(writer < read || before[writer][read])
            << "instruction " << writer << " writes before " << read << " has written all of its result";
      }
  }
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < i; ++j) {
      const Kind kind = megakernel.instructions[i].shape.kind;
      if (megakernel.instructions[j].shape.kind != kind) continue;
      if (kind != Kind::kAttention && kind != Kind::kMixture) continue;
      EXPECT_TRUE(before[i][j]) << "instructions " << j << " and " << i << " share memory";
    }
}

TEST(Megakernels, NoInstructionWritesOverWhatAnotherMayStillRead) {
  for (const char* name : {"qwen2", "qwen3", "qwen3_moe"})
    for (const char* disabled :
         {"", "fuse_norm_linear", "merge_linear", "fuse_addend", "memory_reuse", "in_place"}) {
      SCOPED_TRACE(std::string(name) + " without " + disabled);
      const auto model = name == std::string("qwen3_moe") ? mixture_model("5") : language_model(name, "5");
      const Found found = megakernels_of(*model, "decode", {}, only(disabled));
      for (const MegakernelPlan& megakernel : found.megakernels) expect_slots_are_safe(megakernel);
    }
}

// A mixture waits for the logits alone, not for what their instruction gives beside them.
TEST(Megakernels, NoInstructionWritesOverASecondResultOfARouter) {
  const auto model = mixture_model("5");
  CompiledEntry compiled =
      compile_entry(*model, "decode", {}, target_of("cuda"), {.disabled = {"memory_reuse"}});
  int64_t end = int64_t{1} << 40;  // beyond all of the plan's memory
  for (Step& step : compiled.plan.steps) {
    if (step.op->name() != "linear" || step.output_types[0].dtype != DType::f32) continue;
    if (step.output_types[0].numel() != 16) continue;  // the head
    step.attributes.set("weights", int64_t{2});
    step.inputs.insert(step.inputs.begin() + 2, step.inputs[1]);
    step.input_types.insert(step.input_types.begin() + 2, step.input_types[1]);
    BufferRef second = step.outputs[0];
    second.offset = end++ * second.bytes;
    step.outputs.push_back(second);
    step.output_types.push_back(step.output_types[0]);
  }
  const std::vector<MegakernelPlan> megakernels = plan_megakernels(compiled.plan);
  size_t routers = 0;
  for (const MegakernelPlan& megakernel : megakernels) {
    for (const PlannedInstruction& each : megakernel.instructions) routers += each.shape.elements.size() == 2;
    expect_slots_are_safe(megakernel);
  }
  EXPECT_EQ(routers, 5u);
}

// Returns layers in which a norm is both x and the addend of a product.
std::string post_norm_layers(int layers) {
  std::string states, body = "entry main(x: bf16[1,128]) {\n  %y0 = neg(x)\n";
  for (int i = 0; i < layers; ++i) {
    states += fmt::format(
        "state @a{0}: bf16[128,128] parameter\nstate @b{0}: bf16[128,128] parameter\n"
        "state @c{0}: bf16[128,128] parameter\nstate @n{0}: bf16[128] parameter\n",
        i);
    body += fmt::format(
        "  %t{0} = linear(%y{0}, @a{0})\n  %u{0} = linear(%t{0}, @c{0})\n"
        "  %h{0} = rms_norm(%u{0}, @n{0}) {{has_weight=true}}\n"
        "  %z{0} = linear(%h{0}, @b{0})\n  %y{1} = add(%z{0}, %h{0})\n",
        i, i + 1);
  }
  return states + body + fmt::format("  return y = %y{}\n}}\n", layers);
}

// Nothing writes the result of a norm that its readers compute: a block that waits for it would wait for ever.
TEST(Megakernels, ANormThatIsAlsoAnAddendIsAStep) {
  const auto model = parse_text(post_norm_layers(5));
  const CompiledEntry compiled = compile_entry(*model, "main", {}, target_of("cuda"), {});
  EXPECT_EQ(std::ranges::count_if(compiled.plan.steps,
                                  [](const Step& step) { return step.op->name() == "rms_norm"; }),
            5)
      << "norms are not part of the products";
  for (const MegakernelPlan& megakernel : plan_megakernels(compiled.plan)) expect_slots_are_safe(megakernel);
}

TEST(Megakernels, LongProgramsAreCut) {
  const auto model = language_model("qwen2", "60");
  const Found found = megakernels_of(*model, "decode");
  ASSERT_EQ(found.megakernels.size(), 2u);
  EXPECT_EQ(found.megakernels[0].instructions.size(), kMaxInstructions);
  // The results of the first megakernel go through memory: q, k and v to an attention, which cannot begin a
  // megakernel.
  ASSERT_EQ(found.megakernels[0].instructions.back().kept, std::vector<bool>({true, true, true}));
  EXPECT_EQ(found.megakernels[1].first(), found.megakernels[0].end() + 1);
  EXPECT_EQ(found.megakernels[1].instructions[0].sources[0].instruction, -1);
}

TEST(Megakernels, PackedWeightsLeaveThemWhole) {
  for (const WeightFormat format : {WeightFormat::kQ8, WeightFormat::kQ4}) {
    const auto model = language_model("qwen2", "4");
    passes::quantize(*model, {.format = format, .embedding = false, .head = true});
    const Found found = megakernels_of(*model, "decode");
    ASSERT_EQ(found.megakernels.size(), 1u);
    ASSERT_EQ(found.megakernels[0].instructions.size(), 4 * 5 + 1u);
    const cuda::InstructionShape& qkv = found.megakernels[0].instructions[0].shape;
    EXPECT_EQ(qkv.format, format);
    EXPECT_EQ(qkv.scales, qkv.weight + 3);
    EXPECT_EQ(qkv.bias, qkv.scales + 3);
  }
}

// Scales of two rows of 96 elements are 12 bytes, a size that no copy instruction has.
TEST(Megakernels, PackedWeightsOfOddSizesAreNone) {
  const auto model = language_model("qwen2", "4", "64", {{"intermediate_size", "96"}});
  passes::quantize(*model, {.format = WeightFormat::kQ8});
  for (const MegakernelPlan& megakernel : megakernels_of(*model, "decode").megakernels)
    for (const PlannedInstruction& instruction : megakernel.instructions) EXPECT_NE(instruction.shape.k, 96);
}

TEST(Megakernels, ManyRowsAndF32AreNone) {
  const auto model = language_model("qwen2", "2");
  EXPECT_TRUE(megakernels_of(*model, "prefill", {{"seq", 16}}).megakernels.empty());
  const auto f32 = models::make_model("qwen2", {{"hidden_size", "128"},
                                                {"num_attention_heads", "2"},
                                                {"num_key_value_heads", "1"},
                                                {"num_hidden_layers", "2"}});
  EXPECT_TRUE(megakernels_of(*f32, "decode").megakernels.empty());
}

TEST(Megakernels, CanBeSwitchedOff) {
  const auto model = language_model("qwen2", "2");
  EXPECT_EQ(megakernels_of(*model, "decode").compiled.runner.disabled_kernels, KernelNames{});
  EXPECT_EQ(megakernels_of(*model, "decode", {}, {"megakernel"}).compiled.runner.disabled_kernels,
            KernelNames{"megakernel"});
}

}  // namespace
}  // namespace genesis
