#include "backends/mpi/mpi_ranks.h"

#include <dlfcn.h>

#include <filesystem>

#include "backends/mpi/plugin_interface.h"
#include "backends/mpi/plugin_places.h"
#include "schema/core/error.h"
#include "schema/version.h"

namespace genesis::mpi {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy =
    "install Open MPI (Debian, Ubuntu: apt install openmpi-bin) and a Genesis that was built with "
    "libopenmpi-dev";

// Returns the folder of the library or program that contains this function.
fs::path folder_of_this_code() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&why_missing), &info) == 0 || !info.dli_fname) return {};
  std::error_code error;
  return fs::canonical(info.dli_fname, error).parent_path();
}

struct Opened {
  const Plugin* plugin = nullptr;
  std::string error;  // why it could not be opened
};

// Returns an empty path if the module does not exist.
fs::path find_module(const char* name) {
  const fs::path here = folder_of_this_code();
  std::error_code error;
  for (const char* place : kPluginPlaces)
    if (fs::path file = here / place / name; fs::exists(file, error)) return file;
  return {};
}

Opened open_file(const fs::path& file) {
  // Global, since MPI's own modules look up symbols of the MPI library among the global ones.
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle) return {nullptr, dlerror()};
  const auto plugin = reinterpret_cast<const Plugin* (*)()>(dlsym(handle, kPluginName));
  if (!plugin) return {nullptr, file.string() + " is no MPI module of Genesis"};
  if (plugin()->version != kVersion)
    return {nullptr, file.string() + " belongs to Genesis " + plugin()->version + ", this is " +
                         std::string(kVersion)};
  return {plugin(), ""};
}

Opened open_plugin() {
  if (const fs::path file = find_module("libgenesis_mpi.so"); !file.empty()) return open_file(file);
  return {nullptr, "the module libgenesis_mpi.so is not there"};
}

const Opened& opened() {
  static const Opened result = open_plugin();
  return result;
}

}  // namespace

std::string why_missing() {
  return opened().plugin ? "" : "MPI cannot be used (" + opened().error + "): " + kRemedy;
}

fs::path loopback_module() {
  const char* name = "libgenesis_loopback.so";
  const fs::path file = find_module(name);
  if (file.empty())
    fail(
        "{} is not where libgenesis_mpi.so is, and without it mpirun would listen on all interfaces of this "
        "host: "
        "install Genesis again, or start the ranks with a mpirun of your own",
        name);
  return fs::canonical(file);
}

std::unique_ptr<RankLink> join_ranks(const RankLimits& limits) {
  if (const std::string why = why_missing(); !why.empty()) fail("{}", why);
  return std::unique_ptr<RankLink>(opened().plugin->join_ranks(limits));
}

}  // namespace genesis::mpi
