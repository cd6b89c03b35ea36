#include "executor/cuda_chain.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "backends/cuda/runtime.h"
#include "schema/error.h"

namespace genesis {
namespace {

using cuda::ChainStep;
using cuda::ChainWord;
using cuda::LinkShape;

bool is_aligned(const void* at, uintptr_t to) { return reinterpret_cast<uintptr_t>(at) % to == 0; }

// Words of a slot, so that slots begin at whole lines.
int64_t slot_words(const StepChain& chain) { return (chain.slot_elements / 2 + 15) / 16 * 16; }

uint32_t tag_of(int link) { return static_cast<uint32_t>(link) + 1; }

}  // namespace

CudaChain::CudaChain(StepChain chain, int device)
    : chain_(std::move(chain)), blocks_(cuda::current_chip().multiprocessors) {
  static_assert(kMostLinks < cuda::kChainTags && LinkShape::kMostLayers == ChainStep::kMostLayers);
  words_ = cuda::allocate(device, chain_.slots * slot_words(chain_) * int64_t{sizeof(ChainWord)});
  steps_ = cuda::allocate(device, static_cast<int64_t>(chain_.links.size() * sizeof(ChainStep)));
  run_ = cuda::allocate(device, 2 * sizeof(uint32_t));
  program_.steps = reinterpret_cast<const ChainStep*>(steps_.get());
  program_.run = reinterpret_cast<uint32_t*>(run_.get());
  place_ = cuda::allocate_pinned(sizeof(cuda::ChainPlace));
  program_.place = reinterpret_cast<cuda::ChainPlace*>(place_.get());
  for (const ChainLink& link : chain_.links)
    if (link.shape.kind != LinkShape::Kind::kHeadNorm) plan_steps_.push_back(link.step);
  int64_t split_words = 0;
  for (const ChainLink& link : chain_.links) {
    const LinkShape& shape = link.shape;
    if (shape.kind == LinkShape::Kind::kProduct) {
      const int64_t bytes = shape.k * (shape.norm >= 0 ? 4 : 2);  // with what rounding took, or without
      program_.vector_bytes = std::max(program_.vector_bytes, static_cast<int32_t>(bytes));
    } else if (shape.kind == LinkShape::Kind::kAttention) {
      program_.size = shape.size;
      program_.positions = static_cast<int32_t>(shape.positions);
      program_.theta = shape.theta;
      split_words = std::max(split_words, cuda::split_words(shape.heads, shape.size, blocks_));
    }
  }
  if (split_words > 0) split_words_ = cuda::allocate(device, split_words * int64_t{sizeof(ChainWord)});
}

cuda::ChainVector CudaChain::vector(const ChainSource& source, const void* memory) const {
  if (source.link < 0) return {.memory = memory};
  const ChainLink& link = chain_.links[static_cast<size_t>(source.link)];
  const auto* words = reinterpret_cast<const ChainWord*>(words_.get());
  return {.words = words + link.slot * slot_words(chain_) + source.element / 2, .tag = tag_of(source.link)};
}

void CudaChain::describe_product(const ChainLink& link, const StepCall& call, ChainStep& step) const {
  const LinkShape& shape = link.shape;
  const auto input = [&](int i) { return i < 0 ? nullptr : call.inputs[static_cast<size_t>(i)].data; };
  step.kind = ChainStep::kProduct;
  step.k = static_cast<int32_t>(shape.k);
  step.swiglu = shape.swiglu;
  step.layers = static_cast<int32_t>(shape.n.size());
  step.eps = shape.eps;
  step.norm = input(shape.norm);
  step.x = vector(link.sources[0], input(0));
  if (shape.addend >= 0) step.addend = vector(link.addend, input(shape.addend));
  int32_t first = 0;
  for (int i = 0; i < step.layers; ++i) {
    cuda::ChainLayer& layer = step.layer[i];
    layer.weight = input(shape.weight + i);
    layer.bias = shape.bias < 0 ? nullptr : input(shape.bias + i);
    const auto output = static_cast<size_t>(i);
    layer.first = first;
    layer.n = static_cast<int32_t>(shape.n[output]);
    if (output < link.kept.size() && link.kept[output]) layer.y = call.outputs[output].data;
    if (!shape.swiglu) first += layer.n;
  }
  step.n = shape.swiglu ? step.layer[0].n : first;
  cuda::plan_product(step, blocks_);
}

void CudaChain::describe_attention(const ChainLink& link, std::span<const StepCall> calls, ChainStep& step) {
  const LinkShape& shape = link.shape;
  const StepCall& call = calls[link.step];
  const auto take_norm = [&](int norm, const void*& weight, float& eps) {
    if (norm < 0) return;
    const ChainLink& taken = chain_.links[static_cast<size_t>(norm)];
    weight = calls[taken.step].inputs[1].data;
    eps = taken.shape.eps;
  };
  take_norm(link.q_norm, step.q_norm, step.q_eps);
  take_norm(link.k_norm, step.k_norm, step.k_eps);
  step.kind = ChainStep::kAttention;
  step.heads = shape.heads;
  step.key_heads = shape.key_heads;
  step.splits = cuda::chain_splits(shape.heads, blocks_);
  step.scale = shape.scale;
  step.q = vector(link.sources[0], nullptr);
  step.k_new = vector(link.sources[1], nullptr);
  step.v_new = vector(link.sources[2], nullptr);
  step.k_cache = call.outputs[1].data;
  step.v_cache = call.outputs[2].data;
  if (link.kept[0]) step.y = call.outputs[0].data;
  step.split_words = reinterpret_cast<ChainWord*>(split_words_.get());
  program_.start = call.inputs[5].as<const int64_t>();
}

ChainStep CudaChain::describe(const ChainLink& link, std::span<const StepCall> calls) {
  const auto index = static_cast<int>(&link - chain_.links.data());
  ChainStep step;
  step.tag = tag_of(index);
  step.shift = static_cast<int32_t>(int64_t{index} * 37 % blocks_);
  if (link.slot >= 0) step.out = reinterpret_cast<ChainWord*>(words_.get()) + link.slot * slot_words(chain_);
  if (link.shape.kind == LinkShape::Kind::kProduct)
    describe_product(link, calls[link.step], step);
  else
    describe_attention(link, calls, step);
  return step;
}

bool CudaChain::load(std::span<const StepCall> calls, cudaStream_t stream) {
  std::vector<ChainStep> steps;
  for (const ChainLink& link : chain_.links) {
    const StepCall& call = calls[link.step];
    for (const TensorView& view : call.inputs)
      if (view.numel() > 1 && !is_aligned(view.data, 16)) return false;
    for (const TensorView& view : call.outputs)
      if (!is_aligned(view.data, 16)) return false;
    if (link.shape.kind != LinkShape::Kind::kHeadNorm) steps.push_back(describe(link, calls));
  }
  program_.count = static_cast<int32_t>(steps.size());
  for (const ChainStep& step : steps)
    if (!cuda::ring_takes(program_, step)) return false;
  cuda::check(cudaMemcpyAsync(steps_.get(), steps.data(), steps.size() * sizeof(ChainStep),
                              cudaMemcpyHostToDevice, stream),
              "loading a chain");
  return true;
}

void CudaChain::start(const cuda::Launch& launch) const {
  cuda::ChainProgram program = program_;
  program.fault = launch.fault;
  for (const ChainLink& link : chain_.links)
    if (link.shape.kind == LinkShape::Kind::kAttention) {
      program.fault.step += static_cast<int32_t>(link.step - first());
      break;
    }
  cuda::start_chain(launch, program);
}

void CudaChain::begin_run() {
  program_.place->computed = 0;
  program_.place->fed = 0;
}

std::vector<size_t> CudaChain::under_way() const {
  std::set<size_t> steps;
  for (const int32_t place : {program_.place->computed, program_.place->fed})
    steps.insert(plan_steps_[static_cast<size_t>(std::max(place, 1) - 1)]);
  return {steps.begin(), steps.end()};
}

std::vector<CudaChain> make_cuda_chains(const Plan& plan, int device) {
  std::vector<CudaChain> chains;
  if (plan.separate_steps || !cuda::can_start_chains()) return chains;
  for (StepChain& chain : find_step_chains(plan)) {
    const auto fits = [&](const ChainLink& link) {
      return link.shape.kind != LinkShape::Kind::kAttention ||
             link.shape.heads <= cuda::current_chip().multiprocessors;
    };
    if (std::all_of(chain.links.begin(), chain.links.end(), fits))
      chains.emplace_back(std::move(chain), device);
  }
  return chains;
}

}  // namespace genesis
