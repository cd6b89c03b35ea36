// Optimizers with the names, settings and defaults of PyTorch (torch.optim), Lion's from its paper (Chen et al., 2023):
// optim::AdamW{.lr = 3e-4, .weight_decay = 0.1}. Only these structs define names and defaults; the text form of command lines
// and files is parsed into them and printed from them (train_options.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "schema/core/attributes.h"
#include "schema/ops/nn/optimizer.h"

namespace genesis::optim {

struct SGD {
  static constexpr std::string_view kName = "sgd";
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  // requires momentum and no dampening
  static void fields(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("momentum", self.momentum);
    visit("dampening", self.dampening);
    visit("weight_decay", self.weight_decay);
    visit("nesterov", self.nesterov);
  }
};

struct Adam {
  static constexpr std::string_view kName = "adam";
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8,
         weight_decay = 0;  // the decay adds to the gradient
  // k8bit: the moments of matrices are codes of 8 bits (parameter_updates.h), a quarter of the bytes.
  MomentFormat moments = MomentFormat::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("moments", self.moments);
  }
};

struct AdamW {
  static constexpr std::string_view kName = "adamw";
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8,
         weight_decay = 0.01;  // the decay shrinks the weight
  MomentFormat moments = MomentFormat::kF32;
  static void fields(auto& self, auto&& visit) { Adam::fields(self, visit); }
};

struct Lion {
  static constexpr std::string_view kName = "lion";
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;  // the decay shrinks the weight
  static void fields(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("weight_decay", self.weight_decay);
  }
};

// Adjusts Muon's lr to the shape of a matrix: sqrt(max(1, rows / columns)), or 0.2 sqrt(max(rows, columns)), with which
// settings of AdamW can be reused (Liu et al., 2025, arXiv:2502.16982).
enum class MuonAdjustment : uint8_t { kOriginal, kMatchRmsAdamw };

// Uses Muon for the matrices inside a model (muon.h), and AdamW with its own rate for everything else: embeddings, the head
// that is part of the loss, vectors. Groups with optimizer=adamw or optimizer=muon override this.
struct Muon {
  static constexpr std::string_view kName = "muon";
  double lr = 1e-3, momentum = 0.95, weight_decay = 0.1;  // the decay shrinks the weight
  bool nesterov = true;
  int64_t ns_steps = 5;  // iterations of Newton-Schulz
  double eps = 1e-7;
  MuonAdjustment adjust_lr = MuonAdjustment::kOriginal;
  double adamw_lr = 3e-4, adamw_beta1 = 0.9, adamw_beta2 = 0.95, adamw_eps = 1e-8;
  static void fields(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("momentum", self.momentum);
    visit("weight_decay", self.weight_decay);
    visit("nesterov", self.nesterov);
    visit("ns_steps", self.ns_steps);
    visit("eps", self.eps);
    visit("adjust_lr", self.adjust_lr);
    visit("adamw_lr", self.adamw_lr);
    visit("adamw_beta1", self.adamw_beta1);
    visit("adamw_beta2", self.adamw_beta2);
    visit("adamw_eps", self.adamw_eps);
  }
};

using Optimizer = std::variant<SGD, Adam, AdamW, Lion, Muon>;

}  // namespace genesis::optim

template <>
struct genesis::EnumNames<genesis::optim::MuonAdjustment> {
  static constexpr std::string_view names[] = {"original", "match_rms_adamw"};
};
