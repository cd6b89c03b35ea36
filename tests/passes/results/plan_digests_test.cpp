// Tests that graphs and plans of the zoo's models stay byte-identical: a change that only makes passes and planner
// faster keeps these digests. A change of graphs or plans must update them with the printed ones.
#include <gtest/gtest.h>

#include "executor/runtime/step_graph.h"
#include "models/zoo.h"
#include "passes/core/bind.h"
#include "passes/memory/make_plan.h"
#include "passes/pipelines.h"
#include "passes/training/train_step.h"
#include "schema/file/format/hash.h"
#include "schema/graph/text.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::passes {
namespace {

struct Case {
  const char* model;
  const char* training;  // options; empty: the entry point `forward` as it is
  bool large_device;     // one for which small work is grouped
  bool least_memory;
  const char* digest;
};

std::string reference_text(const BufferRef& ref) {
  return fmt::format(" {}:{}:{}:{}", static_cast<int>(ref.space), ref.index, ref.offset, ref.bytes);
}

std::string plan_text(const Plan& plan) {
  std::string text = fmt::format("{} {}\n", plan.arena_bytes, plan.lower_bound_bytes);
  for (const Step& step : plan.steps) {
    text += step.name;
    for (const BufferRef& ref : step.inputs) text += reference_text(ref);
    text += " ->";
    for (const BufferRef& ref : step.outputs) text += reference_text(ref);
    text += fmt::format(" scratch {}:{}\n", step.scratch_offset, step.scratch_bytes);
  }
  for (const PlanPort& port : plan.outputs) text += port.name + reference_text(port.buffer) + "\n";
  for (const StateCopy& copy : plan.state_copies)
    text += fmt::format("{}{}\n", copy.state, reference_text(copy.source));
  for (const PeakTensor& tensor : plan.peak) text += fmt::format("{} {}\n", tensor.name, tensor.bytes);
  return text;
}

std::string waits_text(const Plan& plan) {
  std::string text;
  for (const auto& successors : make_step_graph(plan).successors) {
    for (const int32_t next : successors) text += std::to_string(next) + " ";
    text += "\n";
  }
  return text;
}

models::Settings settings_of(const std::string& model) {
  if (model == "mlp") return {};
  if (model == "gpt2") return {{"n_embd", "64"}, {"n_layer", "3"}, {"n_head", "4"}, {"vocab_size", "300"}};
  return {{"hidden_size", "64"},        {"intermediate_size", "160"}, {"num_hidden_layers", "3"},
          {"num_attention_heads", "4"}, {"num_key_value_heads", "2"}, {"vocab_size", "300"}};
}

bool never(const KernelQuery&) { return false; }

// Returns true if the step is native. Layers with the same x are one step for up to 64 rows, and so is a norm with
// the layers after it.
bool few_rows_together(const KernelQuery& query) {
  if (query.op.name() != "linear") return true;
  const auto op = from_attributes<ops::Linear>(query.attributes);
  const TensorType& x = query.inputs[0];
  return (op.weights == 1 && !op.has_norm()) || x.numel() / x.shape[x.shape.rank() - 1].value() <= 64;
}

std::string digest_of(const Case& c) {
  const std::unique_ptr<Model> model = models::make_model(c.model, settings_of(c.model));
  std::string entry = "forward";
  if (const std::string training = c.training; !training.empty()) {
    entry = "train_step";
    model->replace_entry(run_passes(model->entry("loss"), preparation_pipeline(), {}));
    add_train_step(*model, parse_train_options(training));
  }
  Bindings sizes;
  for (const std::string& symbol : symbols_of(model->entry(entry))) sizes[symbol] = c.least_memory ? 64 : 8;
  Target target;  // a fixed target, since this machine's depends on its processor
  target.launch_seconds = c.large_device ? 1e-6 : 0;
  if (c.large_device) target.bytes_per_second = 3.35e12;
  target.is_native = c.large_device ? few_rows_together : never;
  PassContext context;
  context.target = &target;
  if (c.least_memory) context.memory_budget = 0;
  const Graph bound = passes::bind(model->entry(entry), sizes);
  const Graph graph = run_passes(bound, pipeline_for(bound), context);
  const Plan plan = make_plan(graph, target);
  const std::string text = to_text(graph, {.origins = true}) + plan_text(plan) + waits_text(plan);
  return file::hash_of(std::as_bytes(std::span(text))).to_string();
}

TEST(PlanDigests, TheZoosModelsGetTheGraphsAndPlansTheyHad) {
  const Case cases[] = {
      {"mlp", "", false, false, "058d9ba869cf14cd238906d384ad1adf"},
      {"mlp", "adamw,clip=1.0", false, false, "45a6124332fde5c281caca355b80f009"},
      {"gpt2", "", false, false, "cf72768c444e9690e091cc582084f5f1"},
      {"gpt2", "", true, false, "cf72768c444e9690e091cc582084f5f1"},
      {"gpt2", "adamw,clip=1.0", false, false, "35aa2f2449780a33ce24e3915891bcff"},
      {"gpt2", "adamw,clip=1.0", true, false, "55b8fb15e6b38bd7609d7ee9eb995dbb"},
      {"gpt2", "adamw,clip=1.0", false, true, "688d36cedd8d6fa930c6bcaa6a7fdec9"},
      {"qwen2", "", false, false, "ab1d3b777d72756fcc2f96cf7e89f27d"},
      {"qwen2", "", true, false, "bb13135a26050266bb3754b0a5f0a56f"},
      {"qwen2", "adamw,clip=1.0", false, false, "d297966fb3c58cef5b087941d04a24be"},
      {"qwen2", "adamw,clip=1.0,precision=bf16", true, false, "1ed3b96dc6359621cd2df5d13304db31"},
      {"qwen2", "sgd,momentum=0.9", true, true, "d795e954892af9ea5c9fcbb7abaa35eb"},
      {"qwen3", "lion", false, false, "10491f2e815a84bf487b381500946ea3"},
      {"qwen3", "adamw,accumulate=2,precision=f16", true, false, "b3543216add01342bbf02d9fe4647fe9"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(digest_of(c), c.digest)
        << c.model << " '" << c.training << "'" << (c.large_device ? ", large device" : "")
        << (c.least_memory ? ", least memory" : "");
}

}  // namespace
}  // namespace genesis::passes
