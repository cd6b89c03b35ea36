// How this process was started among others, as the environment says.
#pragma once

#include <string>

namespace genesis {

enum class Launcher {
  kNone,       // this process stands alone
  kMpi,        // mpirun, or srun with PMIx: MPI knows the ranks
  kSlurm,      // srun without MPI: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID
  kVariables,  // RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, as torchrun sets them
};

struct Launch {
  Launcher by = Launcher::kNone;
  int rank = 0, size = 1;
  int local_rank = 0;        // among the ranks of this host
  bool is_one_host = false;  // all ranks are known to be on this host
  std::string address;       // "HOST:PORT" at which ranks without MPI find each other
};

// Throws Error naming a variable that is no number, missing, or does not fit the others.
Launch find_launch();

// By whom, the rank and the size alone: what ranks need to find each other may be missing.
Launch find_ranks();

// "mpirun", "srun", "RANK and WORLD_SIZE", for messages.
std::string_view name_of(Launcher launcher);

}  // namespace genesis
