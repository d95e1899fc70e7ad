# ccache and mold make builds faster where they are installed; nothing needs them.
find_program(FATHOM_CCACHE ccache)
if(FATHOM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${FATHOM_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${FATHOM_CCACHE}")
endif()

find_program(FATHOM_MOLD mold)
if(FATHOM_MOLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>)
endif()
