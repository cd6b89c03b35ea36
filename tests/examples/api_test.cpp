// Shows what an author of models writes with <genesis/genesis.h> alone. Uses each name that the C++ API promises
// once.
#include <genesis/genesis.h>
#include <gtest/gtest.h>

namespace {

using namespace genesis;

struct Block : nn::Module<Block> {
  nn::RMSNorm norm;
  nn::Linear up;

  Block(const Scope& scope, int64_t size)
      : Module(scope), norm(scope / "norm", std::vector<int64_t>{3, size}), up(scope / "up", size, size) {}
  Value forward(Value x) const { return x + up(norm(x)); }
};

// Maps tokens [batch, 3] to a loss, with a head that shares the embedding's weight.
std::shared_ptr<Model> small_model() {
  auto model = std::make_shared<Model>();
  const Scope root(*model, /*seed=*/1);
  const nn::Embedding in(root / "in", 16, 8);
  const nn::Embedding out(root / "out", 16, 8, nn::Embedding::Options{.weight = in.weight});
  nn::ModuleList<Block> blocks;
  blocks.append(Block(root / "layers" / blocks.size(), 8));
  const nn::Sequential net({nn::Linear(root / "a", 8, 8), nn::Tanh(), nn::Dropout(root / "drop", 0.5)});
  GraphBuilder g(*model, "loss", Mode::kTrain);
  const Value x = g.input("x", DType::i64, {symbol("batch"), 3});
  g.output("loss", mean(square(net[0](net(blocks[-1](in(x)))) - out(x))));
  passes::add_training(
      *model, {.optimizer = optim::AdamW{.lr = 1e-2}, .schedule = optim::CosineAnnealingLR{.total = 9}});
  return model;
}

const NamedTensors kBatch = {{"x", Tensor::of<int64_t>({1, 3}, {1, 2, 3})}};

TEST(Api, ModulesTellTheirParameters) {
  Model model;
  const Block block(Scope(model, 1) / "block", 8);
  std::vector<std::string> names;
  for (const auto& [name, parameter] : block.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"norm.weight", "up.weight", "up.bias"}));
  EXPECT_EQ(block.norm.weight.type().shape, Shape({3, 8}));
}

// Functions, operators and creators as a user of torch writes them.
TEST(Api, FunctionsHaveTheNamesOfTorch) {
  Model model;
  const Scope root(model);
  const nn::Sequential net({nn::Linear(root / 0, 3, 2), nn::GELU()});
  EXPECT_EQ(net.parameters().size(), 2u);
  EXPECT_EQ(net.named_parameters()[0].name, "0.weight");
  GraphBuilder g(model, "forward");
  Value x = g.input("x", DType::f32, {symbol("batch"), 3});
  x += arange(g, 3);
  x = where(x == 2, -x, x) + g.randn({3}) * 0.5;
  const Value y = cat({net(x), mean(x, -1, true), g.zeros({symbol("batch"), 1})}, 1);
  EXPECT_EQ(y.size(-1), Dim(4));
  EXPECT_EQ(stack({y, y}).shape(), Shape({2, symbol("batch"), 4}));
  EXPECT_EQ(argmax(y, -1).dtype(), DType::i64);
  const Tensor given = Tensor::of<float>({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(given.shape(), Tensor::zeros({2, 3}).shape());
  EXPECT_EQ(Tensor::arange(4).size(0), 4);
}

TEST(Api, ASharedWeightIsOneState) {
  const auto model = small_model();
  EXPECT_GE(model->find_state("in.weight"), 0);
  EXPECT_LT(model->find_state("out.weight"), 0);
}

TEST(Api, SessionsTrainOnWhatThereIs) {
  Session session(small_model(), SessionOptions{.device = "auto"});
  EXPECT_NE(session.device(), "auto");
  session.set_seed(7);
  EXPECT_EQ(session.seed(), 7u);
  EXPECT_EQ(session.plan("train_step", {{"batch", 1}}).steps.size(),
            session.plan("train_step", kBatch).steps.size());
  const float first = session.run("train_step", kBatch).at("loss").item<float>();
  for (int step = 0; step < 7; ++step) session.run("train_step", kBatch);
  EXPECT_LT(session.run("train_step", kBatch).at("loss").item<float>(), first);
}

TEST(Api, AStateDictNamesWhatIsMissingAndUnexpected) {
  Session session(small_model());
  NamedTensors values = state_dict(session);
  values.emplace("other", values.at("a.bias"));
  values.erase("a.bias");
  const StateDictReport report = load_state_dict(session, values, /*strict=*/false);
  EXPECT_EQ(report.missing, std::vector<std::string>{"a.bias"});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"other"});
  EXPECT_THROW(load_state_dict(session, values), Error);
}

}  // namespace
