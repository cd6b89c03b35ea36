// Tests the loss of a language model on a text: windows and strides against one forward pass per token.
#include "models/generation/evaluate.h"

#include <cmath>

#include "models/zoo.h"
#include "tests/op_harness.h"

namespace genesis::text {
namespace {

using testing::expect_error;

std::shared_ptr<Model> tiny_model() {
  return models::make_model("qwen2", {{"hidden_size", "32"},
                                       {"intermediate_size", "64"},
                                       {"num_hidden_layers", "2"},
                                       {"num_attention_heads", "2"},
                                       {"num_key_value_heads", "1"}});
}

std::vector<int64_t> some_tokens(size_t count) {
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int64_t>(i * i * 7 + i) % 256);
  return tokens;
}

// Returns -log of the probability of tokens[at] after the `before` tokens preceding it, in double precision.
double nats(Session& session, const std::vector<int64_t>& tokens, size_t at, size_t before) {
  const std::vector<int64_t> given(tokens.begin() + static_cast<std::ptrdiff_t>(at - before),
                                   tokens.begin() + static_cast<std::ptrdiff_t>(at));
  const Tensor x = Tensor::of<int64_t>({1, static_cast<int64_t>(before)}, given);
  const auto logits = session.run("forward", {{"tokens", x}}).at("logits").to_doubles();
  const auto last = std::vector<double>(logits.end() - 256, logits.end());
  double sum = 0;
  for (const double logit : last) sum += std::exp(logit);
  return std::log(sum) - last[static_cast<size_t>(tokens[at])];
}

TEST(Evaluate, CountsEveryTokenOnceFromWhatItsWindowHasBeforeIt) {
  const auto model = tiny_model();
  const auto tokens = some_tokens(38);
  Session session(model);
  for (const auto& [seq, stride] :
       std::vector<std::pair<int64_t, int64_t>>{{8, 4}, {8, 8}, {8, 3}, {8, 1}, {64, 0}}) {
    double expected = 0;
    const auto length = std::min<size_t>(static_cast<size_t>(seq), 37);
    size_t done = 0, windows = 0;
    const auto step = static_cast<size_t>(stride == 0 ? seq / 2 : stride);
    for (; done < 37; ++windows) {
      const size_t end = done == 0 ? length : std::min<size_t>(done + step, 37);
      for (size_t at = done + 1; at <= end; ++at) expected += nats(session, tokens, at, at - (end - length));
      done = end;
    }
    const Evaluation got = evaluate(session, tokens, {.seq = seq, .stride = stride});
    EXPECT_EQ(got.tokens, 37);
    EXPECT_EQ(got.windows, static_cast<int64_t>(windows));
    EXPECT_NEAR(got.nats, expected, 1e-3) << seq << " " << stride;
  }
}

TEST(Evaluate, GivesTheSameByLogits) {
  const auto model = tiny_model();
  const auto tokens = some_tokens(100);
  Session by_loss(model);
  const Evaluation expected = evaluate(by_loss, tokens, {.seq = 16});
  model->remove_entry("loss");
  Session by_logits(model);
  const Evaluation got = evaluate(by_logits, tokens, {.seq = 16});
  EXPECT_NEAR(got.loss(), expected.loss(), 1e-5);
  EXPECT_NEAR(got.perplexity(), std::exp(got.nats / 99), 1e-9);
}

// Without any knowledge every byte costs log 256.
TEST(Evaluate, OfAModelOfZeros) {
  const auto model = tiny_model();
  for (size_t i = 0; i < model->states().size(); ++i)
    model->set_initial(static_cast<int32_t>(i), Tensor::zeros(model->states()[i].type));
  Session session(model);
  EXPECT_NEAR(evaluate(session, some_tokens(50), {.seq = 8}).loss(), std::log(256.0), 1e-6);
}

TEST(Evaluate, RefusesWhatHasNoLoss) {
  Session session(tiny_model());
  expect_error([&] { evaluate(session, some_tokens(1), {}); }, {"1 tokens, at least two"});
  expect_error([&] { evaluate(session, some_tokens(9), {.seq = 0}); }, {"a window of 0 tokens"});
  expect_error([&] { evaluate(session, some_tokens(9), {.seq = 4, .stride = 5}); },
               {"a stride of 5", "1 to 4"});
  expect_error([&] { evaluate(session, std::vector<int64_t>{1, 256}, {}); }, {"token 256", "below 256"});
}

}  // namespace
}  // namespace genesis::text
