// Which steps of a plan one kernel does together, and that no link overwrites what another may still read.
// Needs no GPU.
#include "executor/cuda_step_chains.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/kernels.h"
#include "executor/compile.h"
#include "executor/session.h"
#include "models/zoo.h"
#include "passes/cast_precision.h"

namespace genesis {
namespace {

using Kind = cuda::LinkShape::Kind;

std::unique_ptr<Model> language_model(const std::string& name, const std::string& layers,
                                      const std::string& head_size = "64") {
  const auto model = models::make_model(name, {{"hidden_size", "128"},
                                               {"intermediate_size", "256"},
                                               {"num_hidden_layers", layers},
                                               {"num_attention_heads", "2"},
                                               {"num_key_value_heads", "1"},
                                               {"head_dim", head_size},
                                               {"vocab_size", "256"}});
  return passes::cast_precision(*model, DType::bf16);
}

// Empty: none.
std::set<std::string> only(const std::string& pass) {
  return pass.empty() ? std::set<std::string>{} : std::set<std::string>{pass};
}

struct Found {
  CompiledEntry compiled;
  std::vector<StepChain> chains;
};

Found chains_of(const Model& model, const std::string& entry, const Bindings& bindings = {},
                const std::set<std::string>& disabled = {}) {
  Found found{compile_entry(model, entry, bindings, cuda::cuda_target(0), {.disabled_passes = disabled}), {}};
  found.chains = find_step_chains(found.compiled.plan);
  return found;
}

TEST(StepChains, DecodingIsOneChainOfAllLayersAndTheHead) {
  const auto model = language_model("qwen2", "4");
  const Found found = chains_of(*model, "decode");
  ASSERT_EQ(found.chains.size(), 1u);
  const StepChain& chain = found.chains[0];
  ASSERT_EQ(chain.links.size(), 4 * 5 + 1u);
  for (size_t i = 0; i < chain.links.size(); ++i) {
    EXPECT_EQ(chain.links[i].step, chain.first() + i);
    EXPECT_EQ(chain.links[i].shape.kind == Kind::kAttention, i % 5 == 1);
  }
  // Only the logits leave the chain, and only the embedding comes in from memory.
  for (size_t i = 0; i < chain.links.size(); ++i)
    for (bool kept : chain.links[i].kept) EXPECT_EQ(kept, i + 1 == chain.links.size()) << i;
  EXPECT_EQ(chain.links[0].sources[0].link, -1);
  EXPECT_EQ(chain.links[2].addend.link, -1);
  for (size_t i = 1; i < chain.links.size(); ++i)
    EXPECT_EQ(chain.links[i].sources[0].link, static_cast<int>(i) - 1);
  EXPECT_EQ(chain.links[4].addend.link, 2);
  // q, k and v are what one link gives, side by side.
  EXPECT_EQ(chain.links[1].sources[1].element, 128);
  EXPECT_EQ(chain.links[1].sources[2].element, 192);
  EXPECT_LE(chain.slots, 4);
}

TEST(StepChains, AnAttentionTakesTheNormsOfItsHeads) {
  const auto model = language_model("qwen3", "3");
  const Found found = chains_of(*model, "decode");
  ASSERT_EQ(found.chains.size(), 1u);
  const StepChain& chain = found.chains[0];
  ASSERT_EQ(chain.links.size(), 3 * 7 + 1u);
  for (size_t i = 0; i + 1 < chain.links.size(); ++i) {
    const ChainLink& link = chain.links[i];
    EXPECT_EQ(link.shape.kind == Kind::kHeadNorm, i % 7 == 1 || i % 7 == 2) << i;
    EXPECT_EQ(link.slot < 0, link.shape.kind == Kind::kHeadNorm) << i;
    if (link.shape.kind != Kind::kAttention) continue;
    // It reads what the norms read, whichever of them comes first.
    EXPECT_EQ(link.q_norm + link.k_norm, static_cast<int>(2 * i) - 3);
    for (const ChainSource& source : link.sources) EXPECT_EQ(source.link, static_cast<int>(i) - 3);
  }
  EXPECT_LE(chain.slots, 5);
}

// Otherwise nobody would compute them.
TEST(StepChains, EveryNormOfHeadsIsAnAttentionsOrAStep) {
  for (const char* head_size : {"16", "32", "64", "96", "128", "256"})
    for (const char* disabled : {"", "in_place", "memory_reuse", "fuse_cached_attention"}) {
      SCOPED_TRACE(std::string(head_size) + " without " + disabled);
      const auto model = language_model("qwen3", "3", head_size);
      const Found found = chains_of(*model, "decode", {}, only(disabled));
      for (const StepChain& chain : found.chains)
        for (size_t i = 0; i < chain.links.size(); ++i) {
          if (chain.links[i].shape.kind != Kind::kHeadNorm) continue;
          const auto takes = [&](const ChainLink& link) {
            return link.q_norm == static_cast<int>(i) || link.k_norm == static_cast<int>(i);
          };
          EXPECT_EQ(std::count_if(chain.links.begin(), chain.links.end(), takes), 1) << "link " << i;
          EXPECT_EQ(chain.links[i].kept, std::vector<bool>{false});
        }
    }
}

// What blocks know when one of them writes what a link gives, worked out anew: a product has waited for all
// of x, a head of an attention for parts of three vectors.
std::vector<std::vector<bool>> done_before_writing(const StepChain& chain) {
  const size_t count = chain.links.size();
  std::vector<std::vector<bool>> written(count, std::vector<bool>(count, false)), complete = written;
  for (size_t i = 0; i < count; ++i) {
    const ChainLink& link = chain.links[i];
    for (const ChainSource& source : link.sources) {
      if (source.link < 0) continue;
      const auto from = static_cast<size_t>(source.link);
      for (size_t j = 0; j < count; ++j) {
        if (written[from][j]) written[i][j] = complete[i][j] = true;
        if (j == from || complete[from][j]) complete[i][j] = true;
      }
    }
    if (link.shape.kind == Kind::kProduct) written[i] = complete[i];
  }
  return written;
}

// A slot is free once everything that reads it is done before anybody writes it again.
void expect_slots_are_safe(const StepChain& chain) {
  const size_t count = chain.links.size();
  const std::vector<std::vector<bool>> before = done_before_writing(chain);
  for (size_t reader = 0; reader < count; ++reader) {
    if (chain.links[reader].shape.kind == Kind::kHeadNorm) continue;
    std::vector<ChainSource> all = chain.links[reader].sources;
    all.push_back(chain.links[reader].addend);
    for (const ChainSource& source : all)
      for (size_t writer = 0; source.link >= 0 && writer < count; ++writer) {
        const auto read = static_cast<size_t>(source.link);
        if (writer == read || chain.links[writer].slot < 0) continue;
        if (chain.links[writer].slot != chain.links[read].slot) continue;
        EXPECT_TRUE(writer < read || before[writer][reader])
            << "link " << writer << " writes over what " << reader << " reads";
      }
  }
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < i; ++j) {
      if (chain.links[i].shape.kind != Kind::kAttention || chain.links[j].shape.kind != Kind::kAttention)
        continue;
      EXPECT_TRUE(before[i][j]) << "attentions " << j << " and " << i << " share memory";
    }
}

TEST(StepChains, NoLinkWritesOverWhatAnotherMayStillRead) {
  for (const char* name : {"qwen2", "qwen3"})
    for (const char* disabled :
         {"", "fuse_norm_linear", "merge_linear", "fuse_addend", "memory_reuse", "in_place"}) {
      SCOPED_TRACE(std::string(name) + " without " + disabled);
      const auto model = language_model(name, "5");
      const Found found = chains_of(*model, "decode", {}, only(disabled));
      for (const StepChain& chain : found.chains) expect_slots_are_safe(chain);
    }
}

TEST(StepChains, LongChainsAreCut) {
  const auto model = language_model("qwen2", "60");
  const Found found = chains_of(*model, "decode");
  ASSERT_EQ(found.chains.size(), 2u);
  EXPECT_EQ(found.chains[0].links.size(), kMostLinks);
  // What the first chain gives goes through memory: q, k and v to an attention, which begins no chain.
  ASSERT_EQ(found.chains[0].links.back().kept, std::vector<bool>({true, true, true}));
  EXPECT_EQ(found.chains[1].first(), found.chains[0].end() + 1);
  EXPECT_EQ(found.chains[1].links[0].sources[0].link, -1);
}

TEST(StepChains, ManyRowsAndF32AreNone) {
  const auto model = language_model("qwen2", "2");
  EXPECT_TRUE(chains_of(*model, "prefill", {{"seq", 16}}).chains.empty());
  const auto f32 = models::make_model("qwen2", {{"hidden_size", "128"},
                                                {"num_attention_heads", "2"},
                                                {"num_key_value_heads", "1"},
                                                {"num_hidden_layers", "2"}});
  EXPECT_TRUE(chains_of(*f32, "decode").chains.empty());
}

TEST(StepChains, CanBeSwitchedOff) {
  const auto model = language_model("qwen2", "2");
  EXPECT_FALSE(chains_of(*model, "decode").compiled.plan.separate_steps);
  EXPECT_TRUE(chains_of(*model, "decode", {}, {"step_chains"}).compiled.plan.separate_steps);
}

}  // namespace
}  // namespace genesis
