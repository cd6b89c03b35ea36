// A .safetensors file as its header and its bytes, which tests damage in ways that write_safetensors() cannot write.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::testing {

class SafetensorsBytes {
 public:
  explicit SafetensorsBytes(const std::filesystem::path& path) : SafetensorsBytes(read_whole_file(path)) {}
  explicit SafetensorsBytes(const std::string& bytes) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    header_ = parse_json_text(bytes.substr(8, length));
    data_ = bytes.substr(8 + length);
  }

  void reshape(const std::string& name, const std::vector<int64_t>& sizes) {
    header_.at(name)["shape"] = sizes;
  }
  template <class T>
  void set(const std::string& name, size_t element, T value) {
    const size_t begin = header_.at(name)["data_offsets"][0];
    std::memcpy(data_.data() + begin + element * sizeof(T), &value, sizeof(T));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, row] : header_.items())
      if (row.contains("data_offsets")) names.push_back(name);
    return names;
  }
  size_t byte_count(const std::string& name) const {
    const auto& offsets = header_.at(name)["data_offsets"];
    return offsets[1].get<size_t>() - offsets[0].get<size_t>();
  }
  int64_t elements(const std::string& name) const {
    int64_t product = 1;
    for (const auto& size : header_.at(name)["shape"]) product *= size.get<int64_t>();
    return product;
  }
  // Gives a tensor another name, unless there is one of this name.
  void rename(const std::string& name, const std::string& other) {
    if (header_.contains(other)) return;
    header_[other] = header_.at(name);
    header_.erase(name);
  }
  void exchange(const std::string& name, const std::string& other) {
    std::swap(header_.at(name), header_.at(other));
  }

  // Removes a tensor with its bytes.
  void erase(const std::string& name) {
    const size_t begin = header_.at(name)["data_offsets"][0], end = header_.at(name)["data_offsets"][1];
    header_.erase(name);
    data_.erase(begin, end - begin);
    for (auto& [other, row] : header_.items())
      if (row.contains("data_offsets") && row["data_offsets"][0].get<size_t>() >= end)
        for (auto& offset : row["data_offsets"]) offset = offset.get<size_t>() - (end - begin);
  }

  std::string bytes() const {
    const std::string text = header_.dump();
    const uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text + data_;
  }
  void write(const std::filesystem::path& path) const { std::ofstream(path, std::ios::binary) << bytes(); }

 private:
  nlohmann::json header_;
  std::string data_;
};

}  // namespace genesis::testing
