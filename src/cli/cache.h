// fathom cache: what is in a directory of the disk cache.
#pragma once

#include <cstdint>
#include <string>

namespace fathom::cli {

struct CacheCommandOptions {
  std::string dir;
  bool json = false;
  uint64_t budget = 0;  // prune: bytes to leave
};

int cache_list(const CacheCommandOptions& options);
// Reads everything. Exit code 1 when something is damaged.
int cache_verify(const CacheCommandOptions& options);
int cache_prune(const CacheCommandOptions& options);

}  // namespace fathom::cli
