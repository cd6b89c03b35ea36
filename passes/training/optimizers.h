// Optimizers with PyTorch's names, settings and defaults (torch.optim), Lion's from its paper (Chen et al., 2023):
// optim::AdamW{.lr = 3e-4, .weight_decay = 0.1}. These structs are the one home of names and defaults; the text form
// of command lines and files is read into them and written from them (train_options.h).
#pragma once

#include <string_view>
#include <variant>

namespace genesis::optim {

struct SGD {
  static constexpr std::string_view kName = "sgd";
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  // needs a momentum, and no dampening
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
  static void fields(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
  }
};

struct AdamW {
  static constexpr std::string_view kName = "adamw";
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8,
         weight_decay = 0.01;  // the decay shrinks the weight
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

using Optimizer = std::variant<SGD, Adam, AdamW, Lion>;

}  // namespace genesis::optim
