#include "executor/distributed/launch.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "executor/distributed/slurm_step.h"
#include "schema/core/error.h"

namespace genesis {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

int64_t large_number(const char* name, int64_t least) {
  const char* text = variable(name);
  if (!text) fail("the launch of this rank is not complete: {} is not set", name);
  const std::string_view digits = text;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < least)
    fail("{} is '{}', expected a whole number from {}", name, digits, least);
  return value;
}

int number(const char* name, int least) {
  const int64_t value = large_number(name, least);
  if (value > std::numeric_limits<int>::max())
    fail("{} is '{}', expected a whole number below 2^31", name, value);
  return static_cast<int>(value);
}

// Returns the value of the first variable that is set; `otherwise` if none is.
int number_of(std::initializer_list<const char*> names, int least, int otherwise) {
  for (const char* name : names)
    if (variable(name)) return number(name, least);
  return otherwise;
}

Launch by_mpi() {
  return {.by = Launcher::kMpi,
          .rank = number_of({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}, 0, 0),
          .size = number_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}, 1, 1),
          .local_rank = number_of({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, 0, 0),
          .mpi = MpiRanks::kExpected};
}

// SLURM_NTASKS can be the number of tasks of the whole job, while one step of it, such as salloc's own shell, has one task.
Launch by_srun() {
  return {.by = Launcher::kSlurm,
          .rank = number("SLURM_PROCID", 0),
          .size = variable("SLURM_STEP_NUM_TASKS") ? number("SLURM_STEP_NUM_TASKS", 1)
                                                   : number("SLURM_NTASKS", 1),
          .mpi = variable("PMIX_RANK")  ? MpiRanks::kExpected
                 : variable("PMI_RANK") ? MpiRanks::kPerhaps
                                        : MpiRanks::kNone};
}

Launch by_variables() {
  return {.by = Launcher::kVariables, .rank = number("RANK", 0), .size = number("WORLD_SIZE", 1)};
}

bool are_same(const Launch& one, const Launch& other) {
  return one.rank == other.rank && one.size == other.size;
}

void find_place_by_variables(Launch& launch) {
  launch.local_rank = number_of({"LOCAL_RANK"}, 0, 0);
  if (launch.size > 1) {
    if (!variable("LOCAL_RANK")) number("LOCAL_RANK", 0);  // reports that it is missing
    if (!variable("MASTER_ADDR"))
      fail("RANK and WORLD_SIZE are set, and MASTER_ADDR, where rank 0 is, is not");
    launch.address = std::string(variable("MASTER_ADDR")) + ":" + std::to_string(number("MASTER_PORT", 1));
  }
}

// Returns an empty text if the host is unknown: the command was typed on a login node, or on the first host of another step.
std::string meeting_host_of_slurm(const Launch& launch) {
  if (const char* given = variable("MASTER_ADDR")) return given;
  if (launch.is_one_host) return "127.0.0.1";
  const char* hosts = variable("SLURM_STEP_NODELIST");
  return hosts ? first_host_of(hosts) : "";
}

void find_place_by_slurm(Launch& launch) {
  launch.local_rank = number("SLURM_LOCALID", 0);
  launch.is_one_host = launch.is_one_host || number_of({"SLURM_STEP_NUM_NODES"}, 1, 0) == 1;
  if (launch.size == 1) return;
  const std::string host = meeting_host_of_slurm(launch);
  if (host.empty()) return;
  const int port = variable("MASTER_PORT")
                       ? number("MASTER_PORT", 1)
                       : meeting_port(large_number("SLURM_JOB_ID", 0), large_number("SLURM_STEP_ID", 0));
  launch.address = host + ":" + std::to_string(port);
}

// Returns true for variables that launchers set for the processes they start, except those of Open MPI.
bool is_of_launchers(std::string_view name) {
  for (const std::string_view own : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                                     "MASTER_PORT", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"})
    if (name == own) return true;
  for (const std::string_view prefix : {"SLURM_", "PMI_", "PMIX_", "HYDI_", "HYDRA_"})
    if (name.starts_with(prefix)) return true;
  return false;
}

// Returns true for variables that Open MPI sets for its processes, but not for the user's settings of Open MPI. mpirun does not
// start inside another mpirun that has set OMPI_UNIVERSE_SIZE.
bool is_of_open_mpi(std::string_view name) {
  if (!name.starts_with("OMPI_") || name.starts_with("OMPI_ALLOW_")) return false;
  if (!name.starts_with("OMPI_MCA_")) return true;
  for (const std::string_view prefix :
       {"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_initial_", "OMPI_MCA_mpi_oversubscribe"})
    if (name.starts_with(prefix)) return true;
  return false;
}

}  // namespace

// Under sbatch, Slurm's variables are also set for the script, where no other rank was started: only a step of srun has
// SLURM_STEP_ID. The variables of srun also reach the processes of a launcher that srun started on each host; these have rank
// numbers of their own.
Launch find_ranks() {
  const bool has_pmi = variable("PMI_RANK") || variable("PMIX_RANK");
  const bool is_step = variable("SLURM_STEP_ID") && variable("SLURM_PROCID");
  const bool is_named = variable("RANK") && variable("WORLD_SIZE");
  if (variable("OMPI_COMM_WORLD_SIZE")) return by_mpi();
  if (has_pmi && !(is_step && are_same(by_mpi(), by_srun()))) return by_mpi();
  if (is_named && !(has_pmi && are_same(by_variables(), by_srun()))) return by_variables();
  return is_step ? by_srun() : Launch();
}

Launch find_launch() {
  Launch launch = find_ranks();
  launch.is_one_host =
      number_of({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"}, 1, 0) == launch.size;
  if (launch.by == Launcher::kVariables) find_place_by_variables(launch);
  if (launch.by == Launcher::kSlurm) find_place_by_slurm(launch);
  if (launch.rank >= launch.size && launch.size > 1)
    fail("{} started rank {} of {} ranks: ranks count from 0", name_of(launch.by), launch.rank, launch.size);
  return launch;
}

int gpu_of(const Launch& launch, int visible) { return visible == 1 ? 0 : launch.local_rank; }

void forget_launchers() {
  const bool has_mpirun = variable("OMPI_COMM_WORLD_SIZE");
  std::vector<std::string> names;
  for (char** each = environ; *each; ++each) {
    const std::string name(*each, std::strcspn(*each, "="));
    if (is_of_launchers(name) || (has_mpirun && is_of_open_mpi(name))) names.push_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

std::string_view name_of(Launcher launcher) {
  static constexpr std::string_view kNames[] = {"no launcher", "mpirun", "srun", "RANK and WORLD_SIZE"};
  return kNames[static_cast<size_t>(launcher)];
}

}  // namespace genesis
