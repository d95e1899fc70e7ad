// EXPECT_ERROR(statement, code, text): `statement` throws fathom::Error with this code, and its message contains
// `text`.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/error.h"

#define EXPECT_ERROR(statement, expected_code, expected_text)                                                 \
  do {                                                                                                        \
    try {                                                                                                     \
      statement;                                                                                              \
      ADD_FAILURE() << #statement " threw nothing";                                                           \
    } catch (const ::fathom::Error& error) {                                                                  \
      EXPECT_EQ(::fathom::error_code_name(error.code()), ::fathom::error_code_name(expected_code));           \
      EXPECT_NE(std::string(error.what()).find(expected_text), std::string::npos) << "got: " << error.what(); \
    }                                                                                                         \
  } while (false)
