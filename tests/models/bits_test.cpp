// Tests that training and decoding of the zoo's models stay bit-identical: a change that only moves code keeps these
// digests. A change of results must update them with the printed ones. Bits depend on the processor's vector
// instructions (order of sums), on its bf16 tiles (AMX) and on the C library (exp, log), so digests are stored by
// these, and a processor that is not in the table skips.
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <hwy/targets.h>
#include <cstdlib>
#include <map>

#include "backends/cpu/simd/amx.h"
#include "models/generation/generator.h"
#include "models/zoo.h"
#include "passes/pipelines.h"
#include "passes/training/schedules.h"
#include "passes/training/train_step.h"
#include "schema/file/format/hash.h"

namespace genesis {
namespace {

// Selects the best target that Highway chooses here. GENESIS_TEST_TARGET=AVX2 selects a lesser one, to fill the
// table.
std::string use_target() {
  const char* wanted = std::getenv("GENESIS_TEST_TARGET");
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t target = 1; target > 0 && target <= HWY_EMU128; target <<= 1) {
    if (!(supported & target)) continue;
    const std::string name = hwy::TargetName(target);
    if (wanted && name != wanted) continue;
    hwy::SetSupportedTargetsForTest(supported & ~(target - 1));
    // Targets with 512-bit vectors give the same bits, but for those without instructions for bf16, which do not round the smallest
    // numbers to zero. Tiles have a key of their own.
    const bool has_bf16 = name == "AVX3_ZEN4" || name == "AVX3_SPR" || cpu::may_use_amx_bf16();
    return !name.starts_with("AVX3") ? name : has_bf16 ? "AVX3" : "AVX3_DL";
  }
  ADD_FAILURE() << "this processor has no " << (wanted ? wanted : "target");
  return "";
}

models::Settings tiny(const std::string& model) {
  if (model == "mlp") return {};
  if (model == "gpt2")
    return {{"vocab_size", "61"}, {"n_embd", "32"}, {"n_layer", "2"}, {"n_head", "2"}, {"n_positions", "32"}};
  return {{"vocab_size", "61"},
          {"hidden_size", "32"},
          {"intermediate_size", "80"},
          {"num_hidden_layers", "2"},
          {"num_attention_heads", "4"},
          {"num_key_value_heads", "2"},
          {"max_position_embeddings", "32"}};
}

void add(file::Hasher& hasher, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    hasher.update(std::as_bytes(std::span(name)));
    hasher.update({tensor.data(), static_cast<size_t>(tensor.bytes())});
  }
}

// Returns small integers as indices, and numbers of both signs; a different batch for every step.
NamedTensors batch_for(const Plan& plan, int step) {
  NamedTensors batch;
  for (const PlanPort& port : plan.inputs) {
    std::vector<int64_t> indices;
    std::vector<float> numbers;
    for (int64_t i = 0; i < port.type.numel(); ++i) {
      const int64_t number = (i * 7919 + step * 104729) % 251;
      indices.push_back(number % (port.name == "target" ? 2 : 61));
      numbers.push_back(static_cast<float>(number) / 64 - 2);
    }
    const bool is_index = port.type.dtype == DType::i64;
    batch.emplace(port.name, Tensor::copy_of(port.type, is_index ? static_cast<const void*>(indices.data())
                                                                 : numbers.data()));
  }
  return batch;
}

std::string training_digest(const std::string& model, const std::string& options) {
  const std::shared_ptr<Model> made = models::make_model(model, tiny(model), 5);
  made->replace_entry(passes::run_passes(made->entry("loss"), passes::preparation_pipeline(), {}));
  passes::add_train_step(*made, passes::parse_train_options(options));
  Bindings sizes;
  for (const char* symbol : {"batch", "seq"}) sizes[symbol] = symbol == std::string("batch") ? 4 : 24;
  if (model == "mlp") sizes.erase("seq");
  Session session(made, {.threads = 2});
  file::Hasher hasher;
  const Plan plan = session.plan("train_step", sizes);
  for (int step = 0; step < 3; ++step) add(hasher, session.run("train_step", batch_for(plan, step)));
  NamedTensors states = session.states();
  states.erase(optim::kBaseRate);  // an option, not a result
  add(hasher, states);
  return hasher.digest().to_string();
}

std::string decoding_digest(const std::string& model) {
  const std::shared_ptr<const Model> made = models::make_model(model, tiny(model), 5);
  Session session = text::open_for_generation(made, {.threads = 2});
  const std::vector<int64_t> prompt = {5, 1, 36, 0, 7};
  const auto greedy = text::generate(session, prompt, {.max_tokens = 12, .temperature = 0}).tokens,
             sampled = text::generate(session, prompt, {.max_tokens = 12, .seed = 3}).tokens;
  file::Hasher hasher;
  hasher.update(std::as_bytes(std::span(greedy)));
  hasher.update(std::as_bytes(std::span(sampled)));
  add(hasher, session.run("forward", {{"tokens", Tensor::of<int64_t>({1, 5}, prompt)}}));
  return hasher.digest().to_string();
}

struct Case {
  const char* model;
  const char* training;  // options; empty: decoding
};

constexpr Case kCases[] = {{"mlp", "adamw,clip=1.0"},
                           {"gpt2", "adamw,clip=1.0"},
                           {"gpt2", "sgd,momentum=0.9,precision=bf16"},
                           {"gpt2", ""},
                           {"qwen2", "adamw,clip=1.0"},
                           {"qwen2", "adamw,clip=1.0,precision=bf16"},
                           {"qwen2", ""},
                           {"qwen3", "lion"},
                           {"qwen3", "adamw,accumulate=2,precision=f16"},
                           {"qwen3", ""},
                           {"llama", "adamw,clip=1.0,precision=bf16"},
                           {"llama", ""}};

using Digests = std::array<const char*, std::size(kCases)>;

const std::map<std::string, Digests>& known() {
  static const std::map<std::string, Digests> table = {
      {"AVX3 glibc 2.36",
       {"b8b7cb0be8bfa699f0da1a542b26e4a8", "839a13be76281a5190fb098764728991",
        "4375ae30a5dbbeed4c6d2f59728b0d29", "4aa69295335d4e78dba6e98e53e64b72",
        "7263329bd71738f213d2e6121fcfb9bb", "79500165f735fddec86f74b65fa7b5fc",
        "69b780652b0f7f889f207c25b42e22e2", "aecf67b4765ca5eafee579f497042927",
        "0532e9da69e5f454df18bec9061a37ac", "9fd3b5ffa3c5f30796bc33982acd33b3",
        "67b1831936fab0dba60aa2a436810c85", "5a2796362d077fcb0889f44d24e533f9"}},
      {"AVX3_DL glibc 2.36",
       {"b8b7cb0be8bfa699f0da1a542b26e4a8", "839a13be76281a5190fb098764728991",
        "4375ae30a5dbbeed4c6d2f59728b0d29", "4aa69295335d4e78dba6e98e53e64b72",
        "7263329bd71738f213d2e6121fcfb9bb", "558e49b78147240ddbedfcff726a63a8",
        "69b780652b0f7f889f207c25b42e22e2", "aecf67b4765ca5eafee579f497042927",
        "0532e9da69e5f454df18bec9061a37ac", "9fd3b5ffa3c5f30796bc33982acd33b3",
        "67b1831936fab0dba60aa2a436810c85", "5a2796362d077fcb0889f44d24e533f9"}},
      {"AVX3 AMX glibc 2.36",
       {"b8b7cb0be8bfa699f0da1a542b26e4a8", "839a13be76281a5190fb098764728991",
        "a2363c8c9a1b4f8cbc1cdb83700dcb3b", "4aa69295335d4e78dba6e98e53e64b72",
        "7263329bd71738f213d2e6121fcfb9bb", "941f6416ce9a8ca6f6ebdaf76f0158ae",
        "69b780652b0f7f889f207c25b42e22e2", "aecf67b4765ca5eafee579f497042927",
        "0532e9da69e5f454df18bec9061a37ac", "9fd3b5ffa3c5f30796bc33982acd33b3",
        "28f78582f7c0d0e283211a71d8313d7d", "5a2796362d077fcb0889f44d24e533f9"}},
      {"AVX2 glibc 2.36",
       {"5cf9bac83eeb742143feead0ce56b5e2", "79c0e5aeb80cfce7bd170696c885e5d2",
        "9e39914c725a1bea40a5861d14c1ffd6", "5d507c7090bd3d9f6f4c48760bb47eaf",
        "e8e458f31dbd824eca8a529000f33464", "5738700753a28534df23bfd168c7f590",
        "a19cf4b3175e1a303d99fb4ee753a096", "40d478a48ba36f7450706a9401a847e8",
        "4cc3300905b5c46a8530e48d02967bb8", "2324d7f7de63146a610a519bfe59594f",
        "69c0abfb9a03cd819bc7bdcfb994bf73", "0f7c445e03310c5e799257acede4ae1e"}},
  };
  return table;
}

TEST(Bits, OfTheZooAreWhatTheyWere) {
  const std::string key =
      use_target() + (cpu::may_use_amx_bf16() ? " AMX" : "") + " glibc " + gnu_get_libc_version();
  const auto expected = known().find(key);
  std::string got;
  for (size_t i = 0; i < std::size(kCases); ++i) {
    const auto& [model, training] = kCases[i];
    const std::string digest = *training ? training_digest(model, training) : decoding_digest(model);
    got += "\"" + digest + "\",\n";
    if (expected != known().end()) {
      EXPECT_EQ(digest, expected->second[i]) << model << " '" << training << "'";
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  if (expected == known().end()) GTEST_SKIP() << "no digests for " << key << "; here they are:\n" << got;
}

}  // namespace
}  // namespace genesis
