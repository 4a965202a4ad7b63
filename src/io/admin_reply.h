/* Answers in the terms of libmicrohttpd. For the files of admin_http only. */
#ifndef MC_IO_ADMIN_REPLY_H
#define MC_IO_ADMIN_REPLY_H

#include <microhttpd.h>

#include "io/admin_impl.h"

/** Queue what the handler has put into the request's reply; parts follow as the peer reads.
 * @p head_only: the method is HEAD. */
enum MHD_Result mc_admin_send_reply(struct MHD_Connection *conn, struct mc_admin_request *request,
                                    bool head_only);
/** Queue an error of our own, as JSON; @p allow is the header of a 405, or NULL. */
enum MHD_Result mc_admin_send_error(struct MHD_Connection *conn, unsigned status, mooncake_err err,
                                    const char *message, const char *allow);
/** Queue plain text; copied. */
enum MHD_Result mc_admin_send_text(struct MHD_Connection *conn, const struct mc_buf *body);

#endif
