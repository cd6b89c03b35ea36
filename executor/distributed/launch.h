// Finds out from the environment how a launcher started this process among others.
#pragma once

#include <string>

namespace genesis {

enum class Launcher {
  kNone,       // this process is the only one
  kMpi,        // mpirun: MPI knows the ranks
  kSlurm,      // srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID
  kVariables,  // RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, as torchrun sets them
};

// Tells if the ranks find each other through MPI.
enum class MpiRanks {
  kNone,
  kPerhaps,  // srun with the old PMI protocol: an MPI library that only knows the newer one ends the process at its start
  kExpected,
};

struct Launch {
  Launcher by = Launcher::kNone;
  int rank = 0, size = 1;
  int local_rank = 0;        // among the ranks of this host
  bool is_one_host = false;  // all ranks are known to be on this host
  MpiRanks mpi = MpiRanks::kNone;
  std::string address;  // "HOST:PORT" where ranks without MPI meet
  int gpu = 0;          // set from gpu_of() if the ranks run on GPUs
};

// Throws Error that names a variable which is missing, not a number, or inconsistent with the others.
Launch find_launch();

// Finds only the launcher, the rank and the size; the variables that ranks need to find each other may be missing.
Launch find_ranks();

// Returns the index of this rank's GPU among the `visible` GPUs that this process sees: one for each rank of the host, or 0 if
// the launcher lets this rank see only its own, as srun --gpus-per-task=1 does.
int gpu_of(const Launch& launch, int visible);

// Removes the variables of launchers from the environment, so that ranks started by this process do not take them for their own.
void forget_launchers();

// Returns "mpirun", "srun" or "RANK and WORLD_SIZE", for messages.
std::string_view name_of(Launcher launcher);

}  // namespace genesis
