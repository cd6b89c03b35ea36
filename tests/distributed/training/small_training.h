// Small models that train on batches made of numbers, on one rank or on several threads of this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/session.h"
#include "executor/training/batch_source.h"

namespace genesis::testing {

inline constexpr int kSteps = 50;

std::shared_ptr<Model> small_model(const std::string& name, int64_t vocabulary = 61, bool is_tied = true);
// A small model of the zoo with a training step; `options` as genesis-opt --train takes them.
std::shared_ptr<const Model> training(const std::string& name, const std::string& options,
                                      int64_t vocabulary = 61, bool is_tied = true);

// Batches of so many samples, in one micro-batch or in several, whose numbers follow from their position; tokens are 61 of
// the vocabulary, all over it.
class Numbers final : public BatchSource {
 public:
  explicit Numbers(const Graph& graph, int64_t batch = 8);
  NamedTensors batch(int64_t position) override;
  int64_t items_per_batch() const override { return batch_; }

 private:
  const Graph& graph_;
  const int64_t batch_, micro_batch_;
};

// The same, where few of the targets count, of each row another number; of the second batch's first half none.
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

// On this rank, from the batch `first` on.
template <class Source = Numbers>
Curve train(const std::shared_ptr<const Model>& model, SessionOptions options, int steps = kSteps,
            int first = 0);
// On all ranks of the mesh, by rank.
template <class Source = Numbers>
std::vector<Curve> train_on(const std::string& mesh, const std::shared_ptr<const Model>& model,
                            const SessionOptions& options = {}, int steps = kSteps, int first = 0);

// Of the difference, relative to b: Euclidean norms.
double relative_difference(const Tensor& a, const Tensor& b);
// Losses, and all states but the optimizer's, to a relative `bound`.
void expect_close(const Curve& got, const Curve& expected, double bound);
void expect_same_bits(const Curve& a, const Curve& b);
// Trained on the mesh: as `alone` to 1e-5, with the same bits on all ranks and again. What the ranks came to.
std::vector<Curve> expect_trains_as(const Curve& alone, const std::shared_ptr<const Model>& model,
                                    const std::string& mesh);
// The entry point `loss` of a model that trains, before two steps and after: the same number on all ranks of the mesh, however
// much of the weights they share (SessionOptions::zero).
void expect_same_loss_however_shared(const std::shared_ptr<const Model>& model, const std::string& mesh,
                                     bool split_weights);

}  // namespace genesis::testing
