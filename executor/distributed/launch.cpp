#include "executor/distributed/launch.h"

#include <charconv>
#include <cstdlib>
#include <optional>

#include "schema/core/error.h"

namespace genesis {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

int number(const char* name, int least) {
  const char* text = variable(name);
  if (!text) fail("the launch of this rank is not complete: {} is not set", name);
  const std::string_view digits = text;
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < least)
    fail("{} is '{}', expected a whole number from {}", name, digits, least);
  return value;
}

// The first of the variables that is set; `otherwise` when none is.
int number_of(std::initializer_list<const char*> names, int least, int otherwise) {
  for (const char* name : names)
    if (variable(name)) return number(name, least);
  return otherwise;
}

Launch by_mpi() {
  return {.by = Launcher::kMpi,
          .rank = number_of({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}, 0, 0),
          .size = number_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}, 1, 1),
          .local_rank = number_of({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, 0, 0)};
}

void find_place_by_variables(Launch& launch) {
  launch.local_rank = number_of({"LOCAL_RANK"}, 0, 0);
  if (launch.size > 1) {
    if (!variable("LOCAL_RANK")) number("LOCAL_RANK", 0);  // says that it is missing
    if (!variable("MASTER_ADDR"))
      fail("RANK and WORLD_SIZE are set, and MASTER_ADDR, where rank 0 is, is not");
    launch.address = std::string(variable("MASTER_ADDR")) + ":" + std::to_string(number("MASTER_PORT", 1));
  }
}

void find_place_by_slurm(Launch& launch) {
  launch.local_rank = number("SLURM_LOCALID", 0);
  if (launch.size > 1 && variable("SLURM_LAUNCH_NODE_IPADDR")) {
    constexpr int kFirstPort = 20000, kPorts = 10000;  // jobs of one node differ in their ids
    const int port = kFirstPort + number("SLURM_JOB_ID", 0) % kPorts;
    const char* address =
        variable("MASTER_ADDR") ? variable("MASTER_ADDR") : variable("SLURM_LAUNCH_NODE_IPADDR");
    launch.address = std::string(address) + ":" + std::to_string(number_of({"MASTER_PORT"}, 1, port));
  }
}

}  // namespace

// Under sbatch Slurm's are set for the script too, where nobody else was started: only a step of srun has SLURM_STEP_ID.
Launch find_ranks() {
  if (variable("OMPI_COMM_WORLD_SIZE") || variable("PMI_RANK") || variable("PMIX_RANK")) return by_mpi();
  if (variable("RANK") && variable("WORLD_SIZE"))
    return {.by = Launcher::kVariables, .rank = number("RANK", 0), .size = number("WORLD_SIZE", 1)};
  if (variable("SLURM_STEP_ID") && variable("SLURM_PROCID"))
    return {.by = Launcher::kSlurm, .rank = number("SLURM_PROCID", 0), .size = number("SLURM_NTASKS", 1)};
  return {};
}

Launch find_launch() {
  Launch launch = find_ranks();
  if (launch.by == Launcher::kVariables) find_place_by_variables(launch);
  if (launch.by == Launcher::kSlurm) find_place_by_slurm(launch);
  launch.is_one_host =
      number_of({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"}, 1, 0) == launch.size;
  if (launch.rank >= launch.size && launch.size > 1)
    fail("{} started rank {} of {} ranks: ranks count from 0", name_of(launch.by), launch.rank, launch.size);
  return launch;
}

std::string_view name_of(Launcher launcher) {
  static constexpr std::string_view kNames[] = {"no launcher", "mpirun", "srun", "RANK and WORLD_SIZE"};
  return kNames[static_cast<size_t>(launcher)];
}

}  // namespace genesis
