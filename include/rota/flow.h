// Includes the whole flow API: a DAG of tasks that runs in this process.
#pragma once

#include "rota/flow/config.h"
#include "rota/flow/engine.h"
#include "rota/flow/flow.h"
#include "rota/flow/picture.h"
#include "rota/flow/progress.h"
#include "rota/flow/scheduler.h"
#include "rota/flow/stage.h"
#include "rota/flow/values.h"
