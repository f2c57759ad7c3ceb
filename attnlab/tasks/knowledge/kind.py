"""The declaration of the task `knowledge`."""

from __future__ import annotations

from attnlab.tasks.kind import Capability, Example, TaskKind

KNOWN, AUDIT = "known.json", "audit.json"

KNOWLEDGE = TaskKind(
    name="knowledge",
    help="Train models on facts, ask them questions and audit their answers.",
    headline="accuracy",
    better="higher",
    example=Example(
        "Teach a model the embedded world; it takes a few minutes:",
        "attnlab knowledge learn --out",
        "learned",
    ),
    commands="attnlab.tasks.knowledge._commands:app",
    comparison="attnlab.tasks.knowledge._comparison:KnowledgeComparison",
    inspected_model="attnlab.tasks.knowledge._inspected_model:open_run",
    capabilities={
        "ask": Capability(
            "attnlab.tasks.knowledge._serving:QuestionService",
            examples="attnlab.tasks.knowledge._studio_requests:example_questions",
            models=("decoder", "perceiver"),
            files=(KNOWN,),
        ),
        "audit": Capability(
            "attnlab.tasks.knowledge._serving:AuditService",
            prepare="attnlab.tasks.knowledge._studio_requests:audit_request",
            report=AUDIT,
            models=("decoder", "perceiver"),
            files=(KNOWN,),
        ),
    },
    files={
        KNOWN: "the confidence from which an answer counts as known",
        AUDIT: "what the audit measured",
        "audit.html": "the audit as a page",
    },
    results=(KNOWN, AUDIT, "audit.html"),
)
