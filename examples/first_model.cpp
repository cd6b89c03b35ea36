#include <cstdio>

#include <genesis/genesis.h>

using namespace genesis;

int main() {
  auto model = std::make_shared<Model>();
  const Scope root(*model, /*seed=*/1);
  const nn::Sequential net({nn::Linear(root / "fc1", 2, 64), nn::Tanh(), nn::Linear(root / "fc2", 64, 1)});

  GraphBuilder g(*model, "loss", Mode::kTrain);  // one entry point; `batch` is known when it runs
  const Dim batch = symbol("batch");
  const Value x = g.input("x", DType::f32, {batch, 2}), y = g.input("y", DType::f32, {batch, 1});
  g.output("loss", nn::MSELoss()(net(x), y));
  passes::add_training(*model, {.optimizer = optim::AdamW{.lr = 0.01}, .clip = 1.0});

  const Tensor points = Tensor::rand({256, 2}, /*seed=*/2);
  const auto numbers = points.as<float>();
  std::vector<float> products;  // learn to multiply
  for (size_t i = 0; i < numbers.size(); i += 2) products.push_back(numbers[i] * numbers[i + 1]);

  Session session(model);
  for (int step = 1; step <= 500; ++step) {
    auto out = session.run("train_step", {{"x", points}, {"y", Tensor::of({256, 1}, products)}});
    if (step % 100 == 0) std::printf("step %d: loss %.5f\n", step, out["loss"].item<float>());
  }
  session.save("first_model.genesis");  // the trained model; `genesis-run info first_model.genesis` shows it
}
