/*
 * The page at /ui, which lives in this program, and what it asks beside the routes that were there:
 * the last hour, and who pings. Private to master/.
 */
#ifndef MC_MASTER_MASTER_UI_H
#define MC_MASTER_MASTER_UI_H

#include <stddef.h>

#include "master/master_impl.h"

/* X(handler, file as cmake/EmbedFiles.cmake names it, content type) */
#define MC_UI_FILE_LIST(X)                                                                         \
    X(ui, index_html, "text/html; charset=utf-8")                                                  \
    X(ui_style, style_css, "text/css; charset=utf-8")                                              \
    X(ui_app, app_js, "text/javascript; charset=utf-8")                                            \
    X(ui_chart, chart_js, "text/javascript; charset=utf-8")

#define MC_UI_DECLARE_(handler, file, type)                                                        \
    extern const unsigned char mc_file_##file[];                                                   \
    extern const size_t mc_file_##file##_len;                                                      \
    void mc_page_##handler(void *arg, const struct mc_admin_request *request,                      \
                           struct mc_admin_reply *reply);
MC_UI_FILE_LIST(MC_UI_DECLARE_)
#undef MC_UI_DECLARE_

void mc_page_ui_history(void *arg, const struct mc_admin_request *request,
                        struct mc_admin_reply *reply);

/** Take the first sample of the history, and one each 10 s from now on. */
mooncake_err mc_master_history_start(struct mc_master *master) MC_MUST_CHECK;

#endif
