// A process that is killed while it writes loses what it had not written, and nothing else.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "stored_prefixes.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

constexpr int kKills = 200;
constexpr int kConversations = 6;

PrefixStoreOptions small_store(const test::TempDir& dir) {
  PrefixStoreOptions options = store_options(dir.path().string());
  options.budget_bytes = 3000000;
  return options;
}

// Computes and stores until it is killed. No comparison: only the parent can report one.
[[noreturn]] void write_forever(const test::TempDir& dir, uint32_t seed) {
  std::mt19937 random(seed);
  StoredPrefixes process(small_store(dir));
  while (true) {
    const auto salt = static_cast<uint32_t>(random() % kConversations);
    process.run(conversation(1 + static_cast<int>(random() % 600), salt));
  }
}

TEST(PrefixStore, SurvivesTwoHundredKillsWhileWriting) {
  const test::TempDir dir;
  std::mt19937 random(17);
  int resumed = 0;
  for (int i = 0; i < kKills; ++i) {
    SCOPED_TRACE(testing::Message() << "kill " << i);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      write_forever(dir, static_cast<uint32_t>(i));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 20000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";

    StoredPrefixes process(small_store(dir));
    const auto salt = static_cast<uint32_t>(random() % kConversations);
    resumed += process.run(conversation(601, salt)) > 0 ? 1 : 0;
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
  EXPECT_GT(resumed, kKills / 4);
}

}  // namespace
}  // namespace fathom
