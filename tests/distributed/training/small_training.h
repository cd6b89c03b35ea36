// Trains small models on batches of numbers, on one rank or on several threads of this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/inspector.h"
#include "executor/session.h"
#include "executor/training/batch_source.h"

namespace genesis::testing {

inline constexpr int kSteps = 50;

std::shared_ptr<Model> small_model(const std::string& name, int64_t vocabulary = 61, bool is_tied = true);
// Returns a small model of the zoo with a training step; `options` are those of genesis-opt --train.
std::shared_ptr<const Model> training(const std::string& name, const std::string& options,
                                      int64_t vocabulary = 61, bool is_tied = true);

// Batches with this many samples, in one micro-batch or several. Their numbers follow from their position. Tokens are
// 61 ids spread over the vocabulary.
class Numbers final : public BatchSource {
 public:
  explicit Numbers(const Graph& graph, int64_t batch = 8);
  NamedTensors batch(int64_t position) override;
  int64_t items_per_batch() const override { return batch_; }

 private:
  const Graph& graph_;
  const int64_t batch_, micro_batch_;
};

// The same with few targets that count, a different number per row, and none in the first half of the second batch.
class FewTargets final : public BatchSource {
 public:
  static constexpr int64_t kIgnored = -100;

  explicit FewTargets(const Graph& graph) : numbers_(graph) {}
  NamedTensors batch(int64_t position) override;
  int64_t items_per_batch() const override { return numbers_.items_per_batch(); }
  int64_t batches_per_epoch() const override { return 3; }

 private:
  Numbers numbers_;
};

struct Curve {
  std::vector<double> losses;
  NamedTensors states;
  MemoryStatistics memory;
};

// Trains on this rank, from the batch `first` on.
template <class Source = Numbers>
Curve train(const std::shared_ptr<const Model>& model, SessionOptions options, int steps = kSteps,
            int first = 0);
// Trains on all ranks of the mesh. Returns the curves by rank.
template <class Source = Numbers>
std::vector<Curve> train_on(const std::string& mesh, const std::shared_ptr<const Model>& model,
                            const SessionOptions& options = {}, int steps = kSteps, int first = 0);

// Returns the Euclidean norm of the difference, relative to that of b.
double relative_difference(const Tensor& a, const Tensor& b);
// Compares losses and all states except the optimizer's, within a relative `bound`.
void expect_close(const Curve& got, const Curve& expected, double bound);
void expect_same_bits(const Curve& a, const Curve& b);
// Checks that training on the mesh matches `alone` to 1e-5, with identical bits on all ranks and in a second run.
// Returns the curves of the ranks.
std::vector<Curve> expect_trains_as(const Curve& alone, const std::shared_ptr<const Model>& model,
                                    const std::string& mesh);
// Reads a text in one run and then token by token, and checks that each mesh gives the logits of one rank to 1e-5.
void expect_decodes_as_alone(const std::shared_ptr<const Model>& model,
                             const std::vector<std::string>& meshes);
// Checks the entry point `loss` of a trained model before and after two steps: it gives the same number on all ranks
// of the mesh in every ZeRO stage (SessionOptions::zero).
void expect_same_loss_however_shared(const std::shared_ptr<const Model>& model, const std::string& mesh,
                                     bool weight_halves);

}  // namespace genesis::testing
