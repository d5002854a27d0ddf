/* What an operation needs of its caller, and how the audit trail has it. The operation table declares both for each
   row, the engine applies them. */
#ifndef BASE_ROLE_H
#define BASE_ROLE_H

enum role { ROLE_NONE, ROLE_VIEWER, ROLE_OPERATOR, ROLE_ADMIN };

enum audit_kind {
    AUDIT_NOT,    /* only where a sandbox's profile wants all of it there */
    AUDIT_READS,  /* when it is over, if there is room */
    AUDIT_WRITES, /* before it begins, or it does not, and when it is over */
    AUDIT_ENDS,   /* the same, and it may use the room that is kept for the end of things */
};

#endif
