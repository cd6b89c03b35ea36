// Sharing knows which tensors of an exported program share their memory in torch. Values never change here, so an operation that
// writes over a tensor is translated only where nothing else would see the change.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace genesis::models::pt2 {

class Sharing {
 public:
  void add(const std::string& name) { owner(name); }
  // Notes that the results of a call are views of its first argument, if the operator `target` makes views.
  void note_call(const std::string& target, const nlohmann::json& node);
  // The tensor is called `other` from now on, too.
  void rename(const std::string& name, const std::string& other) { owners_[other] = owner(name); }
  bool is_shared(const std::string& name) { return views_[owner(name)] > 0; }

 private:
  std::string owner(const std::string& name) { return owners_.emplace(name, name).first->second; }

  std::map<std::string, std::string> owners_;  // the tensor whose memory a tensor has
  std::map<std::string, int> views_;           // by owner
};

}  // namespace genesis::models::pt2
