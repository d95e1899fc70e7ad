// The fathom program: parses the command line and calls one subcommand.
#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts("fathom " FATHOM_VERSION);
    return 0;
  }
  std::fputs("usage: fathom --version\n", stderr);
  return 2;
}
