// What the process prepares before any command runs.
#pragma once

namespace fathom::cli {

// Occupies the descriptors of closed standard streams: the next file to be opened would get them, and messages would be
// written into it. Reading from and writing to a closed stream still fail.
void reserve_standard_streams();

// From now on a mapped file that became shorter, or whose disk fails, ends the process with one line on stderr and
// kExitError. The kernel sends SIGBUS to whoever touches a lost page; nothing can be rescued at that point.
void report_lost_pages();

}  // namespace fathom::cli
