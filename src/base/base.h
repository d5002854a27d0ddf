/* base: errors, buffers, strings, clock, descriptors, logging. Knows nothing of the rest. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "base/base64.h"
#include "base/breaker.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd_pass.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/parallel.h"
#include "base/series.h"
#include "base/share.h"
#include "base/slice.h"
#include "base/stranger.h"
#include "base/turns.h"
#include "base/utf8.h"
#include "base/util.h"

#endif
